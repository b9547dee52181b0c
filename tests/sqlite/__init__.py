"""Tests of `sqlite/`."""
