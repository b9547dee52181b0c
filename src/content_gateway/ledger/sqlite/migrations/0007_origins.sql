-- Who has a content is read when it is asked for, among the pins of it that say so.

CREATE INDEX pins_with_origins ON pins (content, created_at) WHERE origins IS NOT NULL;
