"""The ledger in PostgreSQL, for many machines: its stores, and the numbered migrations."""
