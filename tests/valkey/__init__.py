"""Tests of the room valkey/: limits shared through a Redis, a Valkey, and what is neither."""
