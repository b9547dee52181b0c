"""Content Gateway: one HTTP API in front of name services and IPFS."""
