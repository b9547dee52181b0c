-- Times are milliseconds since 1970, UTC. A CID is its canonical text (version 1, base32).

CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    prefix       TEXT NOT NULL,            -- the first letters of the key, for people
    secret_hash  BLOB NOT NULL UNIQUE,     -- SHA-256 of the whole key
    scopes       TEXT NOT NULL,            -- separated by blanks
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

-- One row a promise: this requestor holds this CID.
CREATE TABLE pins (
    requestor    TEXT NOT NULL,
    cid          TEXT NOT NULL,
    spelling     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (requestor, cid)
) STRICT, WITHOUT ROWID;

-- One row a content, however many hold it: what the backend is known to have done.
CREATE TABLE contents (
    cid          TEXT PRIMARY KEY,
    state        TEXT NOT NULL CHECK (state IN ('queued', 'pinning', 'pinned', 'failed')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER,                  -- when to tend it next; a lease moves it ahead; NULL: settled
    lease_owner  TEXT,                     -- the one reconciler that may write the outcome
    error        TEXT,
    updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX contents_due ON contents (next_at) WHERE next_at IS NOT NULL;
