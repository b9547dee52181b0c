"""Tests of ethereum."""
