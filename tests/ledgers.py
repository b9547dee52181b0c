"""A ledger for tests: in a file of its own, on a clock that they move, about contents by number."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import LeaseQuota, Outcome, WorkItem
from content_gateway.model.pins import NO_LABEL, Page, PinStatus, Removal
from content_gateway.wiring.ledgers import ObservableWorkQueue, Pins

GRACE = 60.0
LEASE = 30.0


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


class Held(Pins, Protocol):
    """The requestors' pins, as tests ask for them."""

    async def holds(self, requestor: str, cid: Cid) -> bool:
        """Whether *requestor* holds *cid*."""

    async def remove(
        self,
        requestor: str,
        cid: Cid,
        created_at: datetime | None = None,
        *,
        by_operator: bool = False,
    ) -> Removal | None:
        """As `PinLedger.remove`."""


class World:
    """A ledger, the queue of its work, and the clock of both."""

    def __init__(self, pins: Held, work: ObservableWorkQueue, clock: Clock) -> None:
        self.ledger, self.contents, self.clock = pins, work, clock

    @classmethod
    def of(cls, database: LedgerDatabase, clock: Clock, grace: float = GRACE) -> "World":
        """That of a SQLite file."""
        pins = SqlitePins(database, grace=grace, clock=clock)
        return cls(pins, SqliteWorkQueue(database, grace=grace, clock=clock), clock)

    async def promise(self, *numbers: int, who: str = "anna") -> None:
        """Let *who* pin these contents, one after the other."""
        for number in numbers:
            await self.ledger.add(who, cid(number), str(cid(number)), NO_LABEL)

    async def status(self, number: int) -> PinStatus:
        """What anna is told of her pin of content *number*."""
        found = await self.ledger.status("anna", cid(number))
        assert found is not None
        return found

    async def lease(
        self, owner: str = "a", first_tries: int = 100, retries: int = 100
    ) -> Sequence[WorkItem]:
        """What *owner* gets, of retries so many of each queue."""
        most = first_tries + retries
        return await self.contents.lease(owner, LEASE, LeaseQuota(most, most, retries, retries))

    async def record(self, outcome: Outcome, *items: WorkItem) -> None:
        """Record *outcome* for each of *items*, which owner a has leased."""
        await self.contents.record_outcomes("a", [(item, outcome) for item in items])


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


@pytest.fixture
def world(database: LedgerDatabase, clock: Clock) -> World:
    return World.of(database, clock)
