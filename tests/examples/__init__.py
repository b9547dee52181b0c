"""The examples do what they say, against a running service."""
