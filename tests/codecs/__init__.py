"""Tests of `codecs/`."""
