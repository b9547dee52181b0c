"""Parts that the tests of pins share."""

from tests.ledgers import clock, contents, database

__all__ = ["clock", "contents", "database"]
