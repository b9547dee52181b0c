"""IPNS: records that prove themselves, and the resolver that keeps the best of them."""
