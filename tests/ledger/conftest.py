"""Parts that the tests of this room share."""

from tests.ledgers import clock, contents, database, ledger, world

__all__ = ["clock", "contents", "database", "ledger", "world"]
