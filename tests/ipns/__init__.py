"""Tests of ipns."""
