"""Tests of block lists: the two formats, and what callers are told."""
