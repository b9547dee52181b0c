"""The ledger on disk: who holds which pin, who may ask, and what the backend still owes."""
