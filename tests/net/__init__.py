"""Tests of `net/`."""
