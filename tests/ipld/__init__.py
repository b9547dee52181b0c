"""Tests of `ipld/`."""
