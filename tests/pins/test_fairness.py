"""One requestor at full load, and another one: whatever the first one's contents do, the second
one's find workers at once.

Told by what happens and not by how long it takes: what hangs here hangs for an hour, so that
whoever needed one of its workers would not be served at all."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.content_state import shared_by_all
from content_gateway.pins.backoff import ReconcilePolicy
from tests.ledgers import cid
from tests.pins.reconciled import Backend, Pins
from tests.waiting import until

WORKERS = 8
HOUR = 3600.0
# A try that hangs has its worker for an hour, the first one too.
PATIENT = ReconcilePolicy(
    workers=WORKERS,
    idle=0.02,
    first_attempt_timeout=HOUR,
    second_attempt_timeout=HOUR,
    first_backoff=0.01,
    longest_backoff=0.02,
    longest_failure_backoff=0.02,
)
FLOOD = range(1_000, 1_500)


@pytest.fixture
async def pins(database: LedgerDatabase, backend: Backend) -> AsyncIterator[Pins]:
    async with Pins(database, backend, PATIENT, grace=0.0) as pins:
        yield pins


def under_way(backend: Backend, numbers: Iterable[int]) -> int:
    """How many of these the backend is at."""
    return sum(backend.busy[cid(number)] for number in numbers)


async def begin_flood(pins: Pins, hanging: Iterable[int] = FLOOD) -> None:
    """Requestor a pins the flood; return once all workers that it may have hang."""
    pins.backend.hanging = {cid(number) for number in hanging}
    pins.start()
    await pins.add(*FLOOD)
    await until(lambda: under_way(pins.backend, FLOOD) == WORKERS)


async def test_contents_that_hang_leave_another_requestor_its_workers(
    pins: Pins, backend: Backend
) -> None:
    """Beside five hundred that hang for ever, twenty pins of another requestor are made, one after
    the other and at once, and a third requestor's too."""
    await begin_flood(pins)
    for number in range(5):
        await pins.add(number, who="b")
        await pins.pinned(number, who="b")
    await pins.add(*range(5, 20), who="b")
    await pins.pinned(*range(5, 20), who="b")
    await pins.add(30, who="c")
    await pins.pinned(30, who="c")
    assert under_way(backend, FLOOD) == WORKERS


async def test_another_requestor_has_a_third_of_what_it_has_alone(
    pins: Pins, backend: Backend
) -> None:
    """So its pins take at most three times as long, and are not made one at a time."""
    await begin_flood(pins, [*FLOOD, *range(100)])
    await pins.add(*range(100), who="b")
    await until(lambda: under_way(backend, range(100)) * 3 >= WORKERS)
    assert backend.running < shared_by_all(WORKERS)  # and somebody else finds one too


async def test_what_is_tried_again_for_ever_leaves_retries_to_others(
    pins: Pins, backend: Backend
) -> None:
    """A flood of retries hangs: another requestor's retry is made all the same."""
    flood = FLOOD[:60]
    backend.deferred = {cid(number) for number in [*flood, 1]}
    pins.start()
    await pins.add(*flood)
    for number in flood:
        await pins.tried(number)
    backend.hanging = {cid(number) for number in flood}
    backend.deferred = {cid(1)}
    await until(lambda: under_way(backend, flood) >= WORKERS // 2)
    await pins.add(1, who="b")
    await pins.tried(1, who="b")
    backend.deferred.clear()
    await pins.pinned(1, who="b")


async def test_what_fails_at_once_does_not_go_before(pins: Pins, backend: Backend) -> None:
    """A flood of contents fails at once and is retried: another requestor's pin is tried after a
    share of them, not after all."""
    backend.refused = {cid(number) for number in FLOOD}
    pins.start()
    await pins.add(*FLOOD)
    for number in range(20):
        await pins.add(number, who="b")
        before = backend.checked.total()
        await until(lambda number=number: backend.checked[cid(number)])  # type: ignore[misc]
        # Those that were leased before, those that were leased with it, and what the test's own
        # sleep between two checks lets pass.
        assert backend.checked.total() - before < len(FLOOD) / 2
        await pins.pinned(number, who="b")


async def test_pinning_again_gains_nothing(pins: Pins, backend: Backend) -> None:
    """A flood that is released and pinned again is a first try again, in the same queue."""
    await begin_flood(pins)
    for number in FLOOD:
        await pins.remove(number)
    await pins.add(*FLOOD)
    await pins.add(*range(10), who="b")
    await pins.pinned(*range(10), who="b")


async def test_a_content_at_the_end_of_a_flood_is_served_for_who_pins_it_too(
    pins: Pins, backend: Backend
) -> None:
    """Somebody pins beforehand what others will want, behind five hundred that hang."""
    await begin_flood(pins)
    await pins.add(*range(10))
    await asyncio.sleep(0.2)
    assert not any(backend.sent[cid(number)] for number in range(10))
    await pins.add(*range(10), who="b")
    await pins.pinned(*range(10), who="b")
