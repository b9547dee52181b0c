"""Tests of the room postgres/: servers that are wrong, full, away or behind a pooler."""
