"""Concurrency: who goes next where many wait, and what a turn of the event loop may take."""
