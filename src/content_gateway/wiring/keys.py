"""The part of the composition root that issues keys: the ledger's database, and nothing else.

A key can be revoked at once, whatever is wrong with the denylist, zone file or blocks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from content_gateway.api_keys import IssuedKeys
from content_gateway.ledger.api_keys import SqliteKeys
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.settings.model import Settings


@asynccontextmanager
async def opened_keys(settings: Settings) -> AsyncIterator[IssuedKeys]:
    """The issued keys; raises WrongSettings where the ledger cannot be opened."""
    async with LedgerDatabase(settings.ledger_path) as database:
        yield IssuedKeys(SqliteKeys(database))
