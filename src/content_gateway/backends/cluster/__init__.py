"""IPFS Cluster as a pin backend, over its REST API."""
