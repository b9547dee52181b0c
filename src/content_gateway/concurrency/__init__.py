"""Concurrency: who goes next where many wait, and how much of one turn of the event loop each
has."""
