-- What a node links to, where that is slow to read and leads to little (ipld/node_links.py).
CREATE TABLE nodes (
    block INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    number INTEGER NOT NULL,
    targets INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (block, codec)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER nodes_go AFTER DELETE ON blocks BEGIN
    DELETE FROM nodes WHERE block = old.id;
END;

-- From here on blocks and size are counted as blocks come in, not when the pin is complete.
UPDATE pins SET
    blocks = (SELECT count(*) FROM refs WHERE pin = pins.id),
    size = (
        SELECT coalesce(sum(length(data)), 0) FROM blocks
        WHERE id IN (SELECT block FROM refs WHERE pin = pins.id)
    )
WHERE NOT complete;
