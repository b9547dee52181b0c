CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    multihash BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
) STRICT;

-- AUTOINCREMENT: the id of a pin that is gone is never used again, so that a late write for it is
-- noticed. losses counts the blocks that the pin has lost: one that loses a block while it is
-- fetched must not be called complete. blocks and size (bytes) are those of its refs.
CREATE TABLE pins (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    cid BLOB NOT NULL UNIQUE,
    complete INTEGER NOT NULL DEFAULT 0,
    leaving INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    blocks INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE refs (
    block INTEGER NOT NULL,
    pin INTEGER NOT NULL,
    PRIMARY KEY (block, pin)
) STRICT, WITHOUT ROWID;

CREATE INDEX refs_by_pin ON refs (pin);
CREATE INDEX pins_leaving ON pins (id) WHERE leaving;
