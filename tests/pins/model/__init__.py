"""Pinning against a model of it: requests, crashes and outages in any order, and what must hold."""
