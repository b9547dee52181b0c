-- Searches compare names without their case by SQLite's own means: a function in Python, called for
-- each row, needs the interpreter as often, and keeps all others from it.

ALTER TABLE pins ADD COLUMN folded TEXT;  -- the name case-folded (Unicode); NULL: it is so already

UPDATE pins SET folded = nullif(casefold(name), name) WHERE name IS NOT NULL;
