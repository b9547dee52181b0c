-- Tenants come and go: a name is free again once its key is revoked, a replaced secret may work for
-- a while, a key's last use is known, and the audit log tells what each has done.

CREATE TABLE api_keys_new (
    id              TEXT PRIMARY KEY,
    name            TEXT NOT NULL,
    prefix          TEXT NOT NULL,         -- the first letters of the key, for people
    secret_hash     BLOB NOT NULL UNIQUE,  -- SHA-256 of the whole key
    scopes          TEXT NOT NULL,         -- separated by blanks
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    revoked_at      INTEGER,
    type            TEXT,                  -- a table of the settings: limits.types.NAME
    limits          TEXT,                  -- JSON: numbers by the name of a limit
    replaced_hash   BLOB,                  -- of the secret before the last rotation, which works
    replaced_until  INTEGER,               -- until then
    used_at         INTEGER                -- to the minute, and some minutes late
) STRICT;

INSERT INTO api_keys_new
    (id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, type, limits)
    SELECT id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, type, limits
    FROM api_keys;

DROP TABLE api_keys;
ALTER TABLE api_keys_new RENAME TO api_keys;

CREATE UNIQUE INDEX api_keys_by_name ON api_keys (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX api_keys_replaced ON api_keys (replaced_hash) WHERE replaced_hash IS NOT NULL;

-- One row an act, in the transaction of what it tells; the oldest are deleted (audit.entries).
CREATE TABLE audit (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,         -- of refusals: when their hour begins
    requestor    TEXT NOT NULL,            -- whose pin or key it is
    is_operator  INTEGER NOT NULL,         -- whether the operator did it, and not the requestor
    action       TEXT NOT NULL,
    detail       TEXT NOT NULL,            -- the CID; of refusals their code; of a key what it may do
    number       INTEGER NOT NULL DEFAULT 1  -- how many refusals of that code and hour
) STRICT;

CREATE UNIQUE INDEX audit_refusals ON audit (requestor, detail, at) WHERE action = 'refused';
