"""Tests of `backends/`."""
