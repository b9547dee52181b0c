"""Pin backends: a room for each kind, all with the port of `pins/backend.py`."""
