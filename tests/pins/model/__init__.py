"""Pinning against a model of it: wishes, crashes and outages in any order, and what must hold."""
