ALTER TABLE pins RENAME COLUMN leaving TO unpinning;
DROP INDEX pins_leaving;
CREATE INDEX pins_unpinning ON pins (id) WHERE unpinning;
