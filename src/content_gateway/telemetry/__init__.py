"""What a running service tells of itself: logs, request ids, and the numbers behind its metrics."""
