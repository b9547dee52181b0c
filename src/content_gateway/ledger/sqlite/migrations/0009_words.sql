-- The words of docs/glossary.md, for what earlier versions called otherwise. Nothing else changes.

ALTER TABLE contents RENAME COLUMN looks TO status_checks;
ALTER TABLE contents RENAME COLUMN sent TO last_request;
ALTER TABLE contents RENAME COLUMN sent_at TO requested_at;
DROP INDEX contents_leaving;
CREATE INDEX contents_unpinning ON contents (next_at) WHERE state = 'unpinning';

ALTER TABLE turns RENAME COLUMN lane TO queue;

ALTER TABLE duties RENAME TO jobs;
UPDATE jobs SET name = 'resync' WHERE name = 'sweep';

ALTER TABLE sweeps RENAME TO resyncs;
ALTER TABLE resyncs RENAME COLUMN strangers TO unmanaged;

ALTER TABLE resolutions RENAME COLUMN learned_at TO stored_at;
ALTER TABLE ipns RENAME COLUMN learned_at TO stored_at;

-- Written again within seconds by whoever talks to the backend.
DELETE FROM backend_health;
