"""Speed, measured against a bare ASGI function in one run."""
