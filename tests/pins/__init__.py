"""Tests of pins."""
