"""Upstream answers with mistakes in them, 100,000 of them: what comes out is right or an error.

`changes.py` spoils bytes, words, texts and JSON; `oracle.py` says, without any code of ours, what
the spoilt bytes say; `world.py` puts the miniatures, the spoiling and the real parts together. Each
`test_*.py` is one kind of upstream. How many cases each runs is in `cases.py`."""
