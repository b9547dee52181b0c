"""The resync: what the backend has lost is checked again, and what is not ours is only told."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from content_gateway.errors import StorageUnavailable, UpstreamUnavailable
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Event, Listed, Outcome, TrackerStatus
from content_gateway.pins.resync import Resync, ResyncSchedule
from tests.ledgers import Clock, World, cid, numbers
from tests.pins.reconciled import Backend
from tests.waiting import eventually, until

MANY = 10_000
STRANGE = 1_000_000


class Pinset(Backend):
    """A backend that can be listed, and does nothing else: whoever tries is refused.

    It breaks off after *breaks_after* CIDs, if that is set, and waits in the middle of a list while
    *is_open* is not."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unreachable = True
        self.cids: list[Cid] = []
        self.replicas: dict[Cid, int] = {}  # where it is not one
        self.breaks_after: int | None = None
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.listings = 0

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        self.listings += 1
        for number, pinned in enumerate(list(self.cids)):
            if number == self.breaks_after:
                raise UpstreamUnavailable("It broke off.")
            if number == len(self.cids) // 2:
                await self.is_open.wait()
            yield Listed(pinned, self.replicas.get(pinned, 1))


@pytest.fixture
def resyncs(database: LedgerDatabase, clock: Clock) -> SqliteResyncs:
    return SqliteResyncs(database, clock=clock)


@pytest.fixture
def world(database: LedgerDatabase, clock: Clock) -> World:
    return World.of(database, clock, grace=0.0)


@pytest.fixture
def pinset() -> Pinset:
    return Pinset()


@pytest.fixture
def woken() -> list[None]:
    return []


@pytest.fixture
def resync(resyncs: SqliteResyncs, pinset: Pinset, clock: Clock, woken: list[None]) -> Resync:
    return Resync(resyncs, pinset, wake=lambda: woken.append(None), clock=clock)


async def hold(world: World, numbers: Sequence[int]) -> None:
    """These contents are held, pinned and final."""
    await asyncio.gather(*(world.promise(number) for number in numbers))
    while items := await world.lease(first_tries=1000, retries=0):
        seen = BackendStatus(TrackerStatus.PINNED, 1)
        await world.record(Outcome(Event.SEEN_PINNED, None, seen), *items)


async def due(world: World) -> set[int]:
    return set(numbers(await world.lease(first_tries=MANY, retries=MANY)))


async def test_ten_thousand_contents_are_compared(
    world: World, resync: Resync, pinset: Pinset
) -> None:
    """Fifty that are lost become due, and nothing else; 130 unmanaged pins are counted, a hundred
    of them are named in the report."""
    await hold(world, range(MANY))
    lost = set(range(7, MANY, 200))
    unmanaged = [cid(STRANGE + number) for number in range(130)]
    pinset.cids = [*(cid(n) for n in reversed(range(MANY)) if n not in lost), *unmanaged]
    report = await resync.now()
    assert report is not None
    assert (report.listed, report.missing, report.unmanaged) == (MANY + 80, 50, 130)
    assert list(report.sample) == unmanaged[:100]
    assert await due(world) == lost


async def test_a_wiped_backend_is_asked_for_everything(
    world: World, resync: Resync, woken: list[None]
) -> None:
    """An empty list from a backend that answers means that all is gone."""
    await hold(world, range(2500))
    report = await resync.now()
    assert report is not None
    assert (report.listed, report.missing) == (0, 2500)
    assert len(await due(world)) == 2500
    assert woken


async def test_an_empty_ledger_has_only_unmanaged_pins(resync: Resync, pinset: Pinset) -> None:
    """None of them is touched: this backend refuses every request."""
    pinset.cids = [cid(1), cid(2)]
    report = await resync.now()
    assert report is not None
    assert (report.listed, report.missing, report.unmanaged) == (2, 0, 2)


async def test_what_is_not_final_is_not_missing(
    world: World, resync: Resync, pinset: Pinset
) -> None:
    """What is on its way in or out is the reconciler's business, and not unmanaged."""
    await hold(world, [1])
    await world.promise(2)
    await world.ledger.remove("anna", cid(1))
    pinset.cids = [cid(1)]
    report = await resync.now()
    assert report is not None
    assert (report.listed, report.missing, report.unmanaged) == (1, 0, 0)


async def test_a_list_that_breaks_off_proves_nothing(
    world: World, resync: Resync, resyncs: SqliteResyncs, pinset: Pinset
) -> None:
    """Nothing is missing because half of a list was read; it is tried again soon."""
    await hold(world, range(3000))
    pinset.cids = [cid(n) for n in range(3000)]
    pinset.breaks_after = 1500
    with pytest.raises(UpstreamUnavailable):
        await resync.now()
    assert await due(world) == set()
    assert await resyncs.last_report() is None
    assert not await resyncs.acquire_job("resync", "other", 1.0, 1e6)
    world.clock.now += ResyncSchedule().after_failure + 1
    assert await resyncs.acquire_job("resync", "other", 1.0, 1e6)


async def test_one_process_resyncs_at_a_time(
    world: World, resyncs: SqliteResyncs, resync: Resync, pinset: Pinset
) -> None:
    """While one runs, another one returns None; afterwards it may run."""
    await hold(world, [1, 2])
    pinset.cids = [cid(1), cid(2)]
    pinset.is_open.clear()
    second = Resync(resyncs, pinset, wake=lambda: None, clock=world.clock)
    first = asyncio.create_task(resync.now())

    await until(lambda: pinset.listings == 1)
    assert await second.now() is None
    pinset.is_open.set()
    assert await first is not None
    assert pinset.listings == 1
    assert await second.now() is not None


async def test_a_resync_that_lost_its_lease_stops(
    world: World, resyncs: SqliteResyncs, resync: Resync, pinset: Pinset
) -> None:
    """It slept longer than its lease lasts and another process has begun: it stores no report."""
    await hold(world, [1, 2])
    pinset.cids = [cid(2)]
    pinset.is_open.clear()
    first = asyncio.create_task(resync.now())

    await until(lambda: pinset.listings == 1)
    world.clock.now += ResyncSchedule().lease + 1
    assert await resyncs.acquire_job("resync", "other", 100.0, 1e6)
    pinset.is_open.set()
    with pytest.raises(StorageUnavailable):
        await first
    assert await resyncs.last_report() is None
    assert not await resyncs.renew_job("resync", "nobody", 1.0)
    assert await resyncs.renew_job("resync", "other", 100.0)


async def test_a_resync_of_the_dead_is_taken_over(
    resyncs: SqliteResyncs, resync: Resync, clock: Clock
) -> None:
    """Once its lease has run out, and not before."""
    assert await resyncs.acquire_job("resync", "dead", 120.0, 1e6)
    assert await resync.now() is None
    clock.now += 121
    assert await resync.now() is not None


async def test_a_resync_waits_for_its_time(
    resyncs: SqliteResyncs, resync: Resync, clock: Clock
) -> None:
    """After one that went well the next is due an interval later, unless somebody triggers it."""
    assert await resync.now() is not None
    assert not await resyncs.acquire_job("resync", "other", 1.0, 1e6)
    clock.now += ResyncSchedule().interval + 1
    assert await resyncs.acquire_job("resync", "other", 1.0, 1e6)


async def test_it_resyncs_at_the_start_and_when_triggered(
    world: World, resyncs: SqliteResyncs, pinset: Pinset
) -> None:
    """At the start, as the backend may have lost pins while no service ran."""
    schedule = ResyncSchedule(interval=3600.0, least=0.01)
    resync = Resync(resyncs, pinset, wake=lambda: None, schedule=schedule, clock=world.clock)
    await hold(world, [1])
    resync.start()

    await until(lambda: pinset.listings == 1)
    resync.trigger()
    await until(lambda: pinset.listings == 2)
    await resync.close()
    assert await due(world) == {1}


async def test_a_resync_goes_on_after_a_failure(resyncs: SqliteResyncs, pinset: Pinset) -> None:
    """A backend that breaks off is asked again, until it lists everything."""
    pinset.cids = [cid(1)]
    pinset.breaks_after = 0
    schedule = ResyncSchedule(interval=0.1, least=0.01, after_failure=0.0)
    resync = Resync(resyncs, pinset, wake=lambda: None, schedule=schedule)
    resync.start()

    await until(lambda: pinset.listings >= 3)
    assert await resyncs.last_report() is None
    pinset.breaks_after = None
    await eventually(resyncs.last_report)
    await resync.close()


async def test_reports_are_kept_and_not_for_ever(
    resyncs: SqliteResyncs, resync: Resync, database: LedgerDatabase, clock: Clock, pinset: Pinset
) -> None:
    """The last hundred; the last one is what is shown."""
    for number in range(120):
        pinset.cids.append(cid(STRANGE + number))
        clock.now += 1
        report = await resync.now()
    assert await resyncs.last_report() == report
    (kept,) = database.read(lambda c: c.execute("SELECT count(*) FROM resyncs").fetchone())
    assert kept == 100
