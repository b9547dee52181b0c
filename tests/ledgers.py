"""A ledger for tests: in a file of its own, on a clock that they move, about contents by number."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.ledger.contents import SqliteWorkQueue
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.pins import SqlitePins
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import LeaseQuota, WorkItem
from content_gateway.model.pins import Page

GRACE = 60.0


class Clock:
    """Moments that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.now


def cid(number: int) -> Cid:
    """The CID of content *number*."""
    return Cid(RAW, SHA2_256, number.to_bytes(32, "big"))


def numbers(items: Sequence[WorkItem]) -> list[int]:
    """Which contents *items* are about."""
    return [int.from_bytes(item.cid.digest, "big") for item in items]


def quota(number: int) -> LeaseQuota:
    """Room for *number* contents of each queue of retries, and for twice as many first tries."""
    return LeaseQuota(number + number, number + number, number, number)


def as_it_is(page: Page) -> Page:
    """A page as it is, for who searches and shows it to nobody."""
    return page


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        yield database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(database: LedgerDatabase, clock: Clock) -> SqlitePins:
    return SqlitePins(database, grace=GRACE, clock=clock)


@pytest.fixture
def contents(database: LedgerDatabase, clock: Clock) -> SqliteWorkQueue:
    return SqliteWorkQueue(database, clock=clock)
