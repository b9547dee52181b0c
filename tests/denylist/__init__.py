"""Tests of `denylist/`."""
