"""Pinning: the promise made to requestors, and the reconciler that keeps it."""
