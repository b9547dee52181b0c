"""One Kubo as a pin backend, over its RPC API."""
