-- least: 1
-- Times are milliseconds since 1970, UTC, but for created_at and last_at: microseconds.
-- A CID is its canonical text (version 1, base32). Text that is compared has the collation "C", so
-- that the order of ids is the same in every database, and an index finds what it should.

CREATE TABLE ledger_schema (
    one      boolean PRIMARY KEY CHECK (one),
    version  integer NOT NULL,
    least    integer NOT NULL               -- the least version of a program that works with it
);

CREATE TABLE api_keys (
    id              text COLLATE "C" PRIMARY KEY,
    name            text COLLATE "C" NOT NULL,
    prefix          text NOT NULL,          -- the first letters of the key, for people
    secret_hash     bytea NOT NULL UNIQUE,  -- SHA-256 of the whole key
    scopes          text NOT NULL,          -- separated by blanks
    created_at      bigint NOT NULL,
    expires_at      bigint,
    revoked_at      bigint,
    type            text,                   -- a table of the settings: limits.types.NAME
    limits          text,                   -- JSON: numbers by the name of a limit
    replaced_hash   bytea,                  -- of the secret before the last rotation, which works
    replaced_until  bigint,                 -- until then
    used_at         bigint                  -- to the minute, and some minutes late
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX api_keys_by_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX api_keys_replaced ON api_keys (replaced_hash) WHERE replaced_hash IS NOT NULL;

-- Whoever adds or removes pins of a requestor locks its row: what it has is counted here, and the
-- moments of its pins are given out here. No index but the key's, so that updates stay on their
-- page (HOT).
CREATE TABLE requestors (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    requestor  text COLLATE "C" NOT NULL UNIQUE,
    pins       bigint NOT NULL DEFAULT 0,
    last_at    bigint                       -- when its newest pin was made, also of those that went
) WITH (fillfactor = 50);

-- One row a content, however many hold it: what the backend is known to have done.
CREATE TABLE contents (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never used again
    cid            text COLLATE "C" NOT NULL UNIQUE,
    state          text COLLATE "C" NOT NULL
        CHECK (state IN ('queued', 'pinning', 'pinned', 'failed', 'unpinned', 'unpinning')),
    generation     integer NOT NULL DEFAULT 0,
    attempts       integer NOT NULL DEFAULT 0,
    status_checks  integer NOT NULL DEFAULT 0,
    last_request   text CHECK (last_request IN ('pin', 'unpin')),
    requested_at   bigint,
    replicas       integer NOT NULL DEFAULT 0,
    wanted         integer NOT NULL DEFAULT 0,
    peers          text,                    -- JSON: what each node said at the last status check
    blocks         bigint NOT NULL DEFAULT 0,
    size           bigint NOT NULL DEFAULT 0,
    error          text,
    updated_at     bigint NOT NULL
) WITH (fillfactor = 80);

-- One row a promise: this requestor holds this content.
CREATE TABLE pins (
    requestor   bigint NOT NULL,            -- its number
    content     bigint NOT NULL,
    created_at  bigint NOT NULL,            -- a requestor has each once
    spelling    text,                       -- NULL: the canonical one
    name        text,
    folded      text,                       -- the name case-folded (Unicode); NULL: it is so already
    origins     text,                       -- JSON array; NULL: none
    meta        text,                       -- JSON object; NULL: none
    PRIMARY KEY (requestor, content)
);

CREATE UNIQUE INDEX pins_by_age ON pins (requestor, created_at);
CREATE INDEX pins_by_content ON pins (content);
CREATE INDEX pins_with_origins ON pins (content, created_at) WHERE origins IS NOT NULL;

-- The contents that want reconciling: narrow, and as many as there is work. A renewal changes
-- lease_until alone, which no index has, so that it stays on its page (HOT).
CREATE TABLE work (
    content      bigint PRIMARY KEY,
    queue        smallint NOT NULL,         -- 0 first tries, 1 retries, 2 slow ones
    turn_of      bigint NOT NULL,           -- whose turn it waits for, of those who hold it
    due_at       bigint NOT NULL,
    is_release   boolean NOT NULL DEFAULT false,
    lease_owner  text COLLATE "C",          -- the one reconciler that may write the outcome
    lease_until  bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX work_by_turn ON work (queue, turn_of, due_at) WHERE lease_owner IS NULL;
CREATE INDEX work_due ON work (queue, due_at) WHERE lease_owner IS NULL;
CREATE INDEX work_releases ON work (due_at) WHERE is_release AND lease_owner IS NULL;
CREATE INDEX work_leased ON work (lease_owner) WHERE lease_owner IS NOT NULL;

-- Work that one process at a time does for all of them.
CREATE TABLE jobs (
    name         text COLLATE "C" PRIMARY KEY,
    next_at      bigint NOT NULL,
    lease_owner  text COLLATE "C"
) WITH (fillfactor = 50);

CREATE TABLE resyncs (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at        bigint NOT NULL,
    ended_at          bigint NOT NULL,
    listed            bigint NOT NULL,
    missing           bigint NOT NULL,
    unmanaged         bigint NOT NULL,
    sample            text NOT NULL,        -- JSON: the first hundred unmanaged ones
    under_replicated  bigint NOT NULL
);

CREATE TABLE backend_health (
    id    integer PRIMARY KEY CHECK (id = 1),
    kept  text NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE resolutions (
    domain           text COLLATE "C" NOT NULL,
    coin             bigint NOT NULL,       -- SLIP-44 or ENSIP-11; 60 is the ordinary question
    wallet           text,
    wallet_is_owner  integer NOT NULL,
    content          text,                  -- ipfs://CID, ipns://NAME, or CODEC:TEXT
    stored_at        bigint NOT NULL,
    PRIMARY KEY (domain, coin)
);

CREATE INDEX resolutions_by_age ON resolutions (stored_at);

CREATE TABLE ipns (
    name       text COLLATE "C" PRIMARY KEY,
    path       text NOT NULL,
    record     bytea,                       -- the signed record; NULL for a DNSLink domain
    ttl        bigint,                      -- milliseconds; for a DNSLink domain
    stored_at  bigint NOT NULL
);

CREATE INDEX ipns_by_age ON ipns (stored_at);

-- One row an act, in the transaction of what it tells; the oldest are deleted (audit.entries).
CREATE TABLE audit (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           bigint NOT NULL,           -- of refusals: when their hour begins
    requestor    text COLLATE "C" NOT NULL,
    is_operator  boolean NOT NULL,
    action       text COLLATE "C" NOT NULL,
    detail       text COLLATE "C" NOT NULL,
    number       bigint NOT NULL DEFAULT 1
);

CREATE UNIQUE INDEX audit_refusals ON audit (requestor, detail, at) WHERE action = 'refused';
