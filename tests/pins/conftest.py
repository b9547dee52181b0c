"""Parts that the tests of pins share."""

from tests.ledgers import clock, contents, database, ledger

__all__ = ["clock", "contents", "database", "ledger"]
