"""Tests of `model/`."""
