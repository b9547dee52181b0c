-- least: 1
-- Which kind of backend the contents are at, so that machines that share a ledger have the same.

CREATE TABLE ledger_backend (
    one   boolean PRIMARY KEY CHECK (one),
    kind  text NOT NULL                     -- a value of pins.backend
);
