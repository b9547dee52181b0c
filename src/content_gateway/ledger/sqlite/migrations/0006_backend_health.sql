-- How the backend was when it was last talked to, for every process of the ledger, and kept once:
-- an outage is not written into each content that waits for its end.
CREATE TABLE backend_health (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    kept  TEXT NOT NULL                    -- JSON, see content/backend_health.py
) STRICT;
