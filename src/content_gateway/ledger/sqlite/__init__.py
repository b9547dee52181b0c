"""The ledger in a SQLite file: its stores, and the numbered migrations."""
