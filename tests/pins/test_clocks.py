"""Clocks that jump: nothing that was promised waits for a moment that a wrong clock has named."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.model.content_state import (
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
)
from content_gateway.model.pins import NO_LABEL
from content_gateway.pins.clock_watch import ClockWatch
from content_gateway.pins.resync import Resync, ResyncSchedule
from tests.ledgers import GRACE, LEASE, Clock, World, cid, numbers, quota
from tests.pins.reconciled import QUICK, Backend, Pins
from tests.waiting import until

DAY = 86_400.0
YEAR = 365 * DAY
LONGEST = 600.0
ONE = LeaseQuota(1, first_tries=1)


class SetClock:
    """A wall clock that goes on by itself, and that a test sets *ahead* of the right time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def world(database: LedgerDatabase, clock: Clock) -> World:
    return World.of(database, clock)


@pytest.fixture
def wall() -> SetClock:
    return SetClock()


@pytest.fixture
async def pins(database: LedgerDatabase, backend: Backend, wall: SetClock) -> AsyncIterator[Pins]:
    policy = replace(QUICK, longest_failure_backoff=900.0)
    async with Pins(database, backend, policy, clock=wall) as pins:
        yield pins


# The service.


@pytest.mark.parametrize("jump", [YEAR, 2 * DAY, 300.0])
async def test_a_pin_of_a_clock_that_was_ahead_is_kept_when_it_is_right(
    pins: Pins, backend: Backend, wall: SetClock, jump: float
) -> None:
    """It was made, and waits out a backoff, under a clock that is then set back: that is noticed,
    and the pin is kept."""
    wall.ahead = jump
    backend.deferred.add(cid(1))
    backend.is_rejecting_writes = True
    pins.start()
    await pins.add(1, 2)
    await until(lambda: backend.checked[cid(1)] + backend.checked[cid(2)])
    wall.ahead = 0.0
    await pins.add(3)
    backend.deferred.clear()
    backend.is_rejecting_writes = False
    await pins.pinned(1, 2, 3)


async def test_a_service_that_starts_after_the_clock_was_set_right_keeps_all(
    pins: Pins, wall: SetClock
) -> None:
    """Pins of another process, or of the one before, whose clock was a year ahead."""
    wall.ahead = YEAR
    await pins.add(*range(5))
    wall.ahead = 0.0
    pins.start()
    await pins.pinned(*range(5))


async def test_work_goes_on_when_the_clock_is_set_back(
    pins: Pins, backend: Backend, wall: SetClock
) -> None:
    """By two days, with work under way: what was failing is tried again, new pins are pinned, and
    what is released goes."""
    backend.refused.add(cid(1))
    pins.start()
    await pins.add(1, 2)
    await pins.pinned(2)
    await pins.tried(1, times=3)
    wall.ahead = -2 * DAY
    backend.refused.clear()
    await pins.add(3)
    await pins.pinned(3, 1)
    await pins.remove(2)
    await until(lambda: cid(2) not in backend.held)


# The watch.


class Rebased:
    """A ledger that is asked for nothing else."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        self.asked.append(back)


async def test_a_step_back_is_told_from_time_that_passes() -> None:
    """Times in the ledger are rebased where the wall clock lost time against the monotonic clock,
    at the first check, and every *longest* seconds."""
    wall, ticks, ledger = Clock(), Clock(), Rebased()
    watch = ClockWatch(ledger, longest=LONGEST, lease=LEASE, clock=wall, monotonic=ticks)  # type: ignore[arg-type]
    rebased = []
    for walled, passed in (
        *((0.0, 0.0), (1.0, 1.0), (1.0, 1.5), (YEAR, 1.0), (-YEAR, 1.0), (1.0, 1.0)),
        *((-1.5, 0.0), (-300.0, 1.0), (LONGEST, LONGEST), (1.0, 1.0)),
    ):
        wall.now, ticks.now = wall.now + walled, ticks.now + passed
        before = len(ledger.asked)
        await watch.check()
        rebased.append([round(back) for back in ledger.asked[before:]])
    year = round(YEAR)
    assert rebased == [[0], [], [], [], [year + 1], [], [], [301], [0], []]


# The ledger.


async def test_what_waits_beyond_every_backoff_is_due(world: World) -> None:
    """A wait that is longer than the longest backoff was written by a wrong clock; a shorter one
    goes on."""
    await world.promise(5)
    (item,) = await world.lease()
    await world.record(Outcome(Event.SEEN_FAILED, LONGEST - 1, attempted=True), item)
    world.clock.now += YEAR
    await world.promise(1, 2, 3)
    items = await world.lease(first_tries=1, retries=0)
    await world.record(Outcome(None, 300.0, attempted=True), *items)
    world.clock.now -= YEAR
    assert await world.lease() == []
    await world.contents.rebase(LONGEST, LEASE, 0.0)
    assert sorted(numbers(await world.lease())) == [1, 2, 3]
    world.clock.now += LONGEST
    assert 5 in numbers(await world.lease())


async def test_a_lease_of_the_future_is_not_taken_from_who_lives(world: World) -> None:
    """It is shortened to one from now, which its owner renews or which runs out."""
    world.clock.now += YEAR
    await world.promise(1, 2)
    (lives,) = await world.contents.lease("lives", LEASE, ONE)
    (dead,) = await world.contents.lease("dead", LEASE, ONE)
    world.clock.now -= YEAR
    await world.contents.rebase(LONGEST, LEASE, 0.0)
    assert await world.contents.lease("next", LEASE, quota(9)) == []
    world.clock.now += LEASE * 2 / 3
    assert await world.contents.renew("lives", [lives], LEASE) == {lives.id}
    world.clock.now += LEASE * 2 / 3
    assert numbers(await world.contents.lease("next", LEASE, quota(9))) == numbers([dead])


async def test_a_correction_that_waited_takes_no_lease(
    world: World, database: LedgerDatabase
) -> None:
    """A ledger may take long: what is leased since the correction began is no lease of the
    future."""
    await world.promise(1)
    began = iter([world.clock.now])
    slow = SqliteWorkQueue(database, grace=GRACE, clock=lambda: next(began, world.clock.now))
    world.clock.now += LONGEST
    await world.contents.lease("lives", LEASE, ONE)
    await slow.rebase(LONGEST, LEASE, 0.0)
    assert await world.contents.lease("next", LEASE, ONE) == []


async def test_a_job_that_was_asked_for_long_ago_is_not_taken_from_who_has_it(
    world: World, database: LedgerDatabase
) -> None:
    """By the time of the question its lease would be one of the future."""
    resyncs, may_go_on = SqliteResyncs(database, clock=world.clock), threading.Event()
    world.clock.now += LONGEST
    assert await resyncs.acquire_job("resync", "lives", LEASE, LONGEST)
    world.clock.now -= LONGEST
    before = asyncio.create_task(database.write(lambda _: may_go_on.wait(60.0)))
    asked = asyncio.create_task(resyncs.acquire_job("resync", "late", LEASE, LONGEST))
    await until(lambda: database.writes.unanswered == 2)
    world.clock.now += LONGEST
    may_go_on.set()
    assert await before
    assert not await asked


async def test_a_period_of_grace_is_kept_but_not_for_a_year(world: World) -> None:
    """Released under a clock that was ahead: the grace begins again, once."""
    await world.promise(1, 2)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += YEAR
    await world.ledger.remove("anna", cid(2))
    world.clock.now -= YEAR
    await world.contents.rebase(0.5, LEASE, 0.0)
    world.clock.now += GRACE - 1
    assert await world.lease() == []
    world.clock.now += 2
    assert sorted(numbers(await world.lease())) == [1, 2]


async def test_a_step_back_takes_as_much_from_every_wait(world: World) -> None:
    """Five minutes back, within the longest backoff: who was to wait ten seconds waits ten."""
    await world.promise(1, 2)
    first, second = await world.lease()
    waits = [(first, Outcome(None, 10.0)), (second, Outcome(None, 200.0))]
    await world.contents.record_outcomes("a", waits)
    world.clock.now -= 300.0
    await world.contents.rebase(LONGEST, LEASE, 300.0)
    world.clock.now += 9.0
    assert await world.lease() == []
    world.clock.now += 2.0
    assert numbers(await world.lease()) == numbers([first])
    world.clock.now += 190.0
    assert numbers([second])[0] in numbers(await world.lease())


async def test_what_was_sent_in_the_future_was_sent_just_now(world: World) -> None:
    """The batch age of its request begins with the next lease, and ends."""
    world.clock.now += YEAR
    await world.promise(1)
    (item,) = await world.lease()
    begun = await world.contents.begin("a", item, LastRequest.PIN, None)
    assert begun is not None
    await world.record(Outcome(None, 1.0), begun)
    world.clock.now -= YEAR
    await world.contents.rebase(LONGEST, LEASE, 0.0)
    for _ in range(2):
        (item,) = await world.lease()
        await world.record(Outcome(None, 0.0), item)
        world.clock.now += 7.0
    assert item.requested_at == world.clock.now - 14.0


async def test_a_resync_is_not_put_off_for_a_year(world: World, database: LedgerDatabase) -> None:
    """Neither by the last one, nor by one that died; and what was pinned under a clock that was
    ahead is compared like the rest."""
    resyncs, backend = SqliteResyncs(database, clock=world.clock), Backend()
    resync = Resync(
        resyncs,
        backend,
        wake=lambda: None,
        schedule=ResyncSchedule(interval=DAY),
        clock=world.clock,
    )
    world.clock.now += YEAR
    await world.promise(1)
    (item,) = await world.lease()
    await world.record(Outcome(Event.SEEN_PINNED, None), item)
    assert await resyncs.acquire_job("resync", "dead", 120.0, DAY)
    world.clock.now -= YEAR
    report = await resync.now()
    assert report is not None
    assert report.missing == 1


async def test_far_moments_are_found_from_queue_to_queue(world: World) -> None:
    """Of many queues with many contents only those are touched that wait too long."""
    for who in range(30):
        for number in range(20):
            await world.ledger.add(f"who {who}", cid(who * 100 + number), "x", NO_LABEL)
    while items := await world.contents.lease("a", LEASE, quota(500)):
        ends = [YEAR if item.id % 50 == 0 else 500.0 for item in items]
        waits = [Outcome(None, end) for end in ends]
        await world.contents.record_outcomes("a", list(zip(items, waits, strict=True)))
    await world.contents.rebase(LONGEST, LEASE, 0.0)
    assert len(await world.contents.lease("a", LEASE, quota(500))) == 12
