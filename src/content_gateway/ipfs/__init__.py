"""Talking to IPFS: clusters, Kubo, delegated routers, gateways, and our own block store."""
