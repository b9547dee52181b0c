"""Tests of `ledger/`."""
