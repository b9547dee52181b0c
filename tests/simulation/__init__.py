"""Pinning simulated: processes over one ledger on a virtual clock, with faults by a seed."""
