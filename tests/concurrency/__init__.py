"""Tests of `concurrency/`."""
