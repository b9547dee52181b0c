"""The ledger: pins, contents, API keys and last known answers in SQL, and the migrations."""
