"""Several machines over one PostgreSQL, with faults, and a check of what clients were told.

`bed.py` runs them (gateways, a PostgreSQL with a standby, a cluster), `nemesis.py` breaks them,
`clients.py` asks, `history.py` keeps what was asked and answered, `linearizable.py` judges it, and
`verdict.py` says whether all of it was as promised. `make machines MINUTES=20` runs it for long."""
