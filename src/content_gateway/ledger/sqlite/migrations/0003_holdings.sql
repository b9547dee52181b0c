-- Pins point at contents by number: what is added together lies together, whatever the CIDs are,
-- so that a new pin touches one random page and not four.

CREATE TABLE contents_new (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: the sweep counts on it
    cid          TEXT NOT NULL UNIQUE,
    state        TEXT NOT NULL
        CHECK (state IN ('queued', 'pinning', 'pinned', 'failed', 'unpinned', 'unpinning')),
    generation   INTEGER NOT NULL DEFAULT 0,  -- changes with every promise and release of the whole
    attempts     INTEGER NOT NULL DEFAULT 0,  -- asked for since it was last pinned
    looks        INTEGER NOT NULL DEFAULT 0,  -- looked at since something happened
    next_at      INTEGER,                     -- when to tend it next; a lease moves it ahead; NULL: settled
    lease_owner  TEXT,                        -- the one reconciler that may write the outcome
    sent         TEXT CHECK (sent IN ('pin', 'unpin')),  -- what the backend was last asked for
    sent_at      INTEGER,
    replicas     INTEGER NOT NULL DEFAULT 0,
    wanted       INTEGER NOT NULL DEFAULT 0,
    peers        TEXT,                        -- JSON: what each node said at the last look
    blocks       INTEGER NOT NULL DEFAULT 0,  -- brought in so far
    size         INTEGER NOT NULL DEFAULT 0,  -- bytes
    error        TEXT,
    updated_at   INTEGER NOT NULL
) STRICT;

INSERT INTO contents_new (cid, state, attempts, next_at, error, updated_at)
    SELECT cid, state, attempts, next_at, error, updated_at FROM contents;

CREATE TABLE pins_new (
    requestor   TEXT NOT NULL,
    content     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,             -- microseconds since 1970; a requestor has each once
    spelling    TEXT,                         -- NULL: the canonical one
    name        TEXT,
    origins     TEXT,                         -- JSON array; NULL: none
    meta        TEXT,                         -- JSON object; NULL: none
    PRIMARY KEY (requestor, content)
) STRICT, WITHOUT ROWID;

INSERT INTO pins_new (requestor, content, created_at, spelling)
    SELECT requestor, contents_new.id,
           created_at * 1000
               + row_number() OVER (PARTITION BY requestor, created_at ORDER BY pins.cid) - 1,
           nullif(spelling, pins.cid)
    FROM pins JOIN contents_new ON contents_new.cid = pins.cid;

DROP TABLE pins;
DROP TABLE contents;
ALTER TABLE pins_new RENAME TO pins;
ALTER TABLE contents_new RENAME TO contents;

CREATE UNIQUE INDEX pins_by_age ON pins (requestor, created_at);
CREATE INDEX pins_by_content ON pins (content);
-- Each lane (content/holdings.py) is a queue of its own, so that none is searched for among others.
CREATE INDEX contents_due
    ON contents ((attempts + looks > 0) + (attempts > 4), next_at) WHERE next_at IS NOT NULL;
CREATE INDEX contents_leaving ON contents (next_at) WHERE state = 'unpinning';
CREATE INDEX contents_leased ON contents (lease_owner) WHERE lease_owner IS NOT NULL;

-- Work that one process at a time does for all of them.
CREATE TABLE duties (
    name         TEXT PRIMARY KEY,
    next_at      INTEGER NOT NULL,            -- a lease moves it ahead
    lease_owner  TEXT
) STRICT, WITHOUT ROWID;

-- What the sweeps have found, the last hundred.
CREATE TABLE sweeps (
    id          INTEGER PRIMARY KEY,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    listed      INTEGER NOT NULL,             -- in the backend's pinset
    missing     INTEGER NOT NULL,             -- ours, pinned, and not listed: looked at again
    strangers   INTEGER NOT NULL,             -- listed, and nobody's here: reported, not touched
    sample      TEXT NOT NULL                 -- JSON: the first hundred strangers
) STRICT;
