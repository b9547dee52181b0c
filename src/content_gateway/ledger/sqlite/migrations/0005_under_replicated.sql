-- How many contents had fewer replicas than are wanted when a sweep looked.

ALTER TABLE sweeps ADD COLUMN under_replicated INTEGER NOT NULL DEFAULT 0;
