-- What names pointed at when we last looked: for a restart during an outage, and for
-- /domain/records. May be lost without harm.

CREATE TABLE resolutions (
    domain           TEXT NOT NULL,
    coin             INTEGER NOT NULL,     -- SLIP-44 or ENSIP-11; 60 is the ordinary question
    wallet           TEXT,
    wallet_is_owner  INTEGER NOT NULL,
    content          TEXT,                 -- ipfs://CID, ipns://NAME, or CODEC:TEXT
    learned_at       INTEGER NOT NULL,
    PRIMARY KEY (domain, coin)
) STRICT, WITHOUT ROWID;

CREATE INDEX resolutions_by_age ON resolutions (learned_at);

CREATE TABLE ipns (
    name        TEXT PRIMARY KEY,          -- canonical: base36 key, or lower-case domain
    path        TEXT NOT NULL,             -- /ipfs/... or /ipns/...
    record      BLOB,                      -- the signed record; NULL for a DNSLink domain
    ttl         INTEGER,                   -- milliseconds; for a DNSLink domain
    learned_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ipns_by_age ON ipns (learned_at);
