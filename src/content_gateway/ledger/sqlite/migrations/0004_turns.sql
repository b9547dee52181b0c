-- Contents are leased in turn by requestor: whoever has many that wait does not stand before the
-- others with all of them.

CREATE TABLE requestors (
    number     INTEGER PRIMARY KEY,           -- as short as a content's row needs it
    requestor  TEXT NOT NULL UNIQUE
) STRICT;

-- From one requestor to the next, without reading all pins.
WITH RECURSIVE each (requestor) AS (
    SELECT min(requestor) FROM pins
    UNION ALL
    SELECT (SELECT min(requestor) FROM pins WHERE requestor > each.requestor)
    FROM each WHERE requestor IS NOT NULL
)
INSERT INTO requestors (requestor) SELECT requestor FROM each WHERE requestor IS NOT NULL;

-- Whose turn it waits for, of those who hold it; 0: nobody's in particular.
ALTER TABLE contents ADD COLUMN turn_of INTEGER NOT NULL DEFAULT 0;

UPDATE contents SET turn_of = coalesce(
    (SELECT number FROM pins JOIN requestors USING (requestor) WHERE content = contents.id LIMIT 1),
    0
) WHERE next_at IS NOT NULL;

DROP INDEX contents_due;
-- Each lane (content/holdings.py) has a queue for each requestor.
CREATE INDEX contents_due
    ON contents ((attempts + looks > 0) + (attempts > 4), turn_of, next_at)
    WHERE next_at IS NOT NULL;

-- The queues that are not empty, in the order in which they are served.
CREATE TABLE turns (
    lane       INTEGER NOT NULL,
    requestor  INTEGER NOT NULL,
    at         INTEGER NOT NULL,              -- microseconds since 1970: never later than the first
                                              -- of the queue is due, or than it was served since
    PRIMARY KEY (lane, requestor)
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_due ON turns (lane, at);

INSERT INTO turns (lane, requestor, at)
    SELECT (attempts + looks > 0) + (attempts > 4) AS lane, turn_of, min(next_at) * 1000
    FROM contents WHERE next_at IS NOT NULL GROUP BY lane, turn_of;

-- Whatever makes a content wait puts its queue in the line: no writer can forget it.
CREATE TRIGGER contents_wait AFTER UPDATE OF next_at, attempts, looks, turn_of ON contents
WHEN new.next_at IS NOT NULL
BEGIN
    INSERT INTO turns (lane, requestor, at)
    VALUES ((new.attempts + new.looks > 0) + (new.attempts > 4), new.turn_of, new.next_at * 1000)
    ON CONFLICT (lane, requestor) DO UPDATE SET at = excluded.at WHERE excluded.at < at;
END;

CREATE TRIGGER contents_begin AFTER INSERT ON contents WHEN new.next_at IS NOT NULL
BEGIN
    INSERT INTO turns (lane, requestor, at)
    VALUES ((new.attempts + new.looks > 0) + (new.attempts > 4), new.turn_of, new.next_at * 1000)
    ON CONFLICT (lane, requestor) DO UPDATE SET at = excluded.at WHERE excluded.at < at;
END;
