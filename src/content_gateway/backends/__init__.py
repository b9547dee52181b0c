"""Where pins are kept: one room for each kind of backend, all with the port of
`pins/backend.py`."""
