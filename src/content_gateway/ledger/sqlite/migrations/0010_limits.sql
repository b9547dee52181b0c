-- Limits of keys: a key's type, limits of its own, and how many pins a requestor has.

ALTER TABLE api_keys ADD COLUMN type TEXT;      -- a table of the settings: limits.types.NAME
ALTER TABLE api_keys ADD COLUMN limits TEXT;    -- JSON: numbers by the name of a limit

ALTER TABLE requestors ADD COLUMN pins INTEGER NOT NULL DEFAULT 0;
UPDATE requestors SET pins = (SELECT count(*) FROM pins WHERE pins.requestor = requestors.requestor);
