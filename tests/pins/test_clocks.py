"""Clocks that jump: nothing that was promised waits for a moment that a wrong clock has named."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from content_gateway.denylist.denylist import Denylist
from content_gateway.ledger.contents import SqliteWorkQueue
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.pins import SqlitePins
from content_gateway.ledger.resyncs import SqliteResyncs
from content_gateway.model.content_state import (
    ContentState,
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
)
from content_gateway.model.pins import NO_LABEL
from content_gateway.pins.clock_watch import ClockWatch
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync, ResyncSchedule
from tests.ledgers import GRACE, Clock, cid, numbers, quota
from tests.pins.test_reconciler import QUICK, Backend
from tests.waiting import until

DAY = 86_400.0
YEAR = 365 * DAY
LONGEST = 600.0
LEASE = 30.0
ONE = LeaseQuota(1, first_tries=1)


class SetClock:
    """A wall clock that goes on by itself, and that a test sets *ahead* of the right time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def ledger(database: LedgerDatabase, clock: Clock) -> SqlitePins:
    return SqlitePins(database, grace=GRACE, clock=clock)


@pytest.fixture
def contents(database: LedgerDatabase, clock: Clock) -> SqliteWorkQueue:
    return SqliteWorkQueue(database, grace=GRACE, clock=clock)


@pytest.fixture
def wall() -> SetClock:
    return SetClock()


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def reconciler(
    database: LedgerDatabase, backend: Backend, wall: SetClock
) -> AsyncIterator[Reconciler]:
    contents = SqliteWorkQueue(database, clock=wall)
    policy = replace(QUICK, longest_failure_backoff=900.0)
    reconciler = Reconciler(contents, backend, policy=policy, clock=wall)
    yield reconciler
    await reconciler.close()


@pytest.fixture
def pinning(database: LedgerDatabase, reconciler: Reconciler, wall: SetClock) -> Pinning:
    ledger = SqlitePins(database, grace=0.2, clock=wall)
    return Pinning(ledger, denylist=Denylist(None, None), wake=reconciler.wake)


async def pinned(pinning: Pinning, number: int) -> None:
    await until(lambda: pinning.status("a", cid(number)).state is ContentState.PINNED)


# The service.


@pytest.mark.parametrize("jump", [YEAR, 2 * DAY, 300.0])
async def test_a_pin_of_a_clock_that_was_ahead_is_kept_when_it_is_right(
    *, pinning: Pinning, reconciler: Reconciler, backend: Backend, wall: SetClock, jump: float
) -> None:
    """Made, and waiting out a backoff, while the clock was wrong: the step back is noticed."""
    wall.ahead = jump
    backend.deferred.add(cid(1))
    backend.is_rejecting_writes = True
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await pinning.add("a", str(cid(2)))
    await until(lambda: backend.looked[cid(1)] + backend.looked[cid(2)])
    wall.ahead = 0.0
    await pinning.add("a", str(cid(3)))
    backend.deferred.clear()
    backend.is_rejecting_writes = False
    for number in (1, 2, 3):
        await pinned(pinning, number)


async def test_a_service_that_starts_after_the_clock_was_set_right_keeps_all(
    pinning: Pinning, reconciler: Reconciler, wall: SetClock
) -> None:
    """Pins of another process, or of the one before, whose clock was a year ahead."""
    wall.ahead = YEAR
    for number in range(5):
        await pinning.add("a", str(cid(number)))
    wall.ahead = 0.0
    reconciler.start()
    for number in range(5):
        await pinned(pinning, number)


async def test_work_goes_on_when_the_clock_is_set_back(
    pinning: Pinning, reconciler: Reconciler, backend: Backend, wall: SetClock
) -> None:
    """By two days, with work under way: what was failing is tried again, new pins are pinned, and
    what is released goes."""
    backend.refused.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await pinning.add("a", str(cid(2)))
    await pinned(pinning, 2)
    await until(lambda: pinning.status("a", cid(1)).attempts >= 3)
    wall.ahead = -2 * DAY
    backend.refused.clear()
    await pinning.add("a", str(cid(3)))
    await pinned(pinning, 3)
    await pinned(pinning, 1)
    await pinning.remove("a", cid(2))
    await until(lambda: cid(2) not in backend.held)


# The watch.


class Rebased:
    """A ledger that is asked for nothing else."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        self.asked.append(back)


async def test_a_step_back_is_told_from_time_that_passes() -> None:
    """Of both clocks one runs away: only where the wall clock loses is anything set again, and in
    any case the first time and every *longest* seconds."""
    wall, ticks, ledger = Clock(), Clock(), Rebased()
    watch = ClockWatch(ledger, longest=LONGEST, lease=LEASE, clock=wall, monotonic=ticks)  # type: ignore[arg-type]
    told = []
    for walled, passed in (
        *((0.0, 0.0), (1.0, 1.0), (1.0, 1.5), (YEAR, 1.0), (-YEAR, 1.0), (1.0, 1.0)),
        *((-1.5, 0.0), (-300.0, 1.0), (LONGEST, LONGEST), (1.0, 1.0)),
    ):
        wall.now, ticks.now = wall.now + walled, ticks.now + passed
        before = len(ledger.asked)
        await watch.check()
        told.append([round(back) for back in ledger.asked[before:]])
    year = round(YEAR)
    assert told == [[0], [], [], [], [year + 1], [], [], [301], [0], []]


# The ledger.


async def add(ledger: SqlitePins, *numbers: int) -> None:
    for number in numbers:
        await ledger.add("a", cid(number), str(cid(number)), NO_LABEL)


async def test_what_waits_beyond_every_backoff_is_due(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Queued, failed, and in a queue that was served under the wrong clock; what waits within the
    longest backoff waits on."""
    await add(ledger, 5)
    (item,) = await contents.lease("w", LEASE, quota(9))
    await contents.record_outcomes(
        "w", [(item, Outcome(Event.SEEN_FAILED, LONGEST - 1, attempted=True))]
    )
    clock.now += YEAR
    await add(ledger, 1, 2, 3)
    items = await contents.lease("w", LEASE, ONE)
    await contents.record_outcomes(
        "w", [(each, Outcome(None, 300.0, attempted=True)) for each in items]
    )
    clock.now -= YEAR
    assert await contents.lease("w", LEASE, quota(9)) == []
    await contents.rebase(LONGEST, LEASE, 0.0)
    assert sorted(numbers(await contents.lease("w", LEASE, quota(9)))) == [1, 2, 3]
    clock.now += LONGEST
    assert 5 in numbers(await contents.lease("w", LEASE, quota(9)))


async def test_a_lease_of_the_future_is_not_taken_from_who_lives(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """It becomes one from now, that its owner renews, or that runs out."""
    clock.now += YEAR
    await add(ledger, 1, 2)
    (lives,) = await contents.lease("lives", LEASE, ONE)
    (dead,) = await contents.lease("dead", LEASE, ONE)
    clock.now -= YEAR
    await contents.rebase(LONGEST, LEASE, 0.0)
    assert await contents.lease("next", LEASE, quota(9)) == []
    clock.now += LEASE * 2 / 3
    assert await contents.renew("lives", [lives], LEASE) == {lives.id}
    clock.now += LEASE * 2 / 3
    assert numbers(await contents.lease("next", LEASE, quota(9))) == numbers([dead])


async def test_a_period_of_grace_is_kept_but_not_for_a_year(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Released under a clock that was ahead: the grace begins again, once."""
    await add(ledger, 1, 2)
    await ledger.remove("a", cid(1))
    clock.now += YEAR
    await ledger.remove("a", cid(2))
    clock.now -= YEAR
    await contents.rebase(0.5, LEASE, 0.0)
    clock.now += GRACE - 1
    assert await contents.lease("w", LEASE, quota(9)) == []
    clock.now += 2
    assert sorted(numbers(await contents.lease("w", LEASE, quota(9)))) == [1, 2]


async def test_a_step_back_takes_as_much_from_every_wait(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Five minutes back, within the longest backoff: who was to wait ten seconds waits ten."""
    await add(ledger, 1, 2)
    first, second = await contents.lease("w", LEASE, quota(9))
    waits = [(first, Outcome(None, 10.0)), (second, Outcome(None, 200.0))]
    await contents.record_outcomes("w", waits)
    clock.now -= 300.0
    await contents.rebase(LONGEST, LEASE, 300.0)
    clock.now += 9.0
    assert await contents.lease("w", LEASE, quota(9)) == []
    clock.now += 2.0
    assert numbers(await contents.lease("w", LEASE, quota(9))) == numbers([first])
    clock.now += 190.0
    assert numbers([second])[0] in numbers(await contents.lease("w", LEASE, quota(9)))


async def test_what_was_sent_in_the_future_was_sent_just_now(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Its batch age begins with the first lease, and ends."""
    clock.now += YEAR
    await add(ledger, 1)
    (item,) = await contents.lease("w", LEASE, quota(9))
    begun = await contents.begin("w", item, LastRequest.PIN, None)
    assert begun is not None
    await contents.record_outcomes("w", [(begun, Outcome(None, 1.0))])
    clock.now -= YEAR
    await contents.rebase(LONGEST, LEASE, 0.0)
    for _ in range(2):
        (item,) = await contents.lease("w", LEASE, quota(9))
        await contents.record_outcomes("w", [(item, Outcome(None, 0.0))])
        clock.now += 7.0
    assert item.requested_at == clock.now - 14.0


async def test_a_resync_is_not_put_off_for_a_year(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock, database: LedgerDatabase
) -> None:
    """Neither by the last one, nor by one that died; and what was pinned under a clock that was
    ahead is compared like the rest."""
    resyncs, backend = SqliteResyncs(database, clock=clock), Backend()
    resync = Resync(
        resyncs, backend, wake=lambda: None, schedule=ResyncSchedule(interval=DAY), clock=clock
    )
    clock.now += YEAR
    await add(ledger, 1)
    (item,) = await contents.lease("w", LEASE, quota(9))
    await contents.record_outcomes("w", [(item, Outcome(Event.SEEN_PINNED, None))])
    assert await resyncs.acquire_job("resync", "dead", 120.0, DAY)
    clock.now -= YEAR
    report = await resync.now()
    assert report is not None
    assert report.missing == 1


async def test_far_moments_are_found_from_queue_to_queue(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Of many queues with many contents only those are touched that wait too long."""
    for who in range(30):
        for number in range(20):
            await ledger.add(f"who {who}", cid(who * 100 + number), "x", NO_LABEL)
    while items := await contents.lease("w", LEASE, quota(500)):
        ends = [YEAR if item.id % 50 == 0 else 500.0 for item in items]
        waits = [Outcome(None, end) for end in ends]
        await contents.record_outcomes("w", list(zip(items, waits, strict=True)))
    await contents.rebase(LONGEST, LEASE, 0.0)
    assert len(await contents.lease("w", LEASE, quota(500))) == 12
