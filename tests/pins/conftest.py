"""Parts that the tests of pins share."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from tests.ledgers import clock, contents, database
from tests.pins.reconciled import Backend, Pins

__all__ = ["clock", "contents", "database"]


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def pins(database: LedgerDatabase, backend: Backend) -> AsyncIterator[Pins]:
    async with Pins(database, backend) as pins:
        yield pins
