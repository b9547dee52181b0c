"""Talking to Ethereum nodes: the JSON-RPC client and the few ABI shapes we use."""
