"""HTTP out: one client for all upstreams, bounded and guarded, and the DNS that it asks."""
