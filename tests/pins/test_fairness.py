"""One requestor at full load, and another one: whatever the first one's contents do, the second
one's find workers at once.

Told by what happens and not by how long it takes: what hangs here hangs for an hour, so that
whoever needed one of its workers would not be served at all."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from content_gateway.denylist.denylist import Denylist
from content_gateway.ledger.contents import SqliteWorkQueue
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.pins import SqlitePins
from content_gateway.model.content_state import ContentState, shared_by_all
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from tests.ledgers import cid
from tests.pins.test_reconciler import Backend
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
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def reconciler(database: LedgerDatabase, backend: Backend) -> AsyncIterator[Reconciler]:
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=PATIENT)
    yield reconciler
    await reconciler.close()


@pytest.fixture
def pinning(database: LedgerDatabase, reconciler: Reconciler) -> Pinning:
    ledger = SqlitePins(database, grace=0.0)
    return Pinning(ledger, denylist=Denylist(None, None), wake=reconciler.wake)


async def add(pinning: Pinning, who: str, numbers: Iterable[int]) -> None:
    await asyncio.gather(*(pinning.add(who, str(cid(number))) for number in numbers))


async def pinned(pinning: Pinning, who: str, numbers: Iterable[int]) -> None:
    """Return once all of these are."""
    for number in numbers:
        await until(
            lambda number=number: (  # type: ignore[misc]
                pinning.status(who, cid(number)).state is ContentState.PINNED
            )
        )


def under_way(backend: Backend, numbers: Iterable[int]) -> int:
    """How many of these the backend is at."""
    return sum(backend.busy[cid(number)] for number in numbers)


async def test_contents_that_hang_leave_another_requestor_its_workers(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Five hundred that hang for ever: twenty of somebody else are pinned, one after the other and
    all at once, and a third requestor's too."""
    backend.hanging = {cid(number) for number in FLOOD}
    reconciler.start()
    await add(pinning, "a", FLOOD)
    await until(lambda: under_way(backend, FLOOD) == WORKERS)
    for number in range(5):
        await add(pinning, "b", [number])
        await pinned(pinning, "b", [number])
    await add(pinning, "b", range(5, 20))
    await pinned(pinning, "b", range(5, 20))
    await add(pinning, "c", [30])
    await pinned(pinning, "c", [30])
    assert under_way(backend, FLOOD) == WORKERS


async def test_another_requestor_has_a_third_of_what_it_has_alone(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """So that many pins of its own take three times as long at most, and not by turns of one."""
    backend.hanging = {cid(number) for number in [*FLOOD, *range(100)]}
    reconciler.start()
    await add(pinning, "a", FLOOD)
    await until(lambda: under_way(backend, FLOOD) == WORKERS)
    await add(pinning, "b", range(100))
    await until(lambda: under_way(backend, range(100)) * 3 >= WORKERS)
    assert backend.running < shared_by_all(WORKERS)  # and somebody else finds one too


async def test_what_is_tried_again_for_ever_leaves_retries_to_others(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A flood that was tried before and hangs now: what somebody else has to try again is."""
    flood = FLOOD[:60]
    backend.deferred = {cid(number) for number in [*flood, 1]}
    reconciler.start()
    await add(pinning, "a", flood)
    await until(lambda: all(pinning.status("a", cid(n)).attempts for n in flood))
    backend.hanging = {cid(number) for number in flood}
    backend.deferred = {cid(1)}
    await until(lambda: under_way(backend, flood) >= WORKERS // 2)
    await add(pinning, "b", [1])
    await until(lambda: pinning.status("b", cid(1)).attempts > 0)
    backend.deferred.clear()
    await pinned(pinning, "b", [1])


async def test_what_fails_at_once_does_not_go_before(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A flood of contents that fail in no time, and are tried again and again: between somebody
    else's pin and its first try there is a turn of the flood, not all of it."""
    backend.refused = {cid(number) for number in FLOOD}
    reconciler.start()
    await add(pinning, "a", FLOOD)
    for number in range(20):
        await add(pinning, "b", [number])
        before = backend.looked.total()
        await until(lambda number=number: backend.looked[cid(number)])  # type: ignore[misc]
        # Those that were leased before, those that were leased with it, and what the test's own
        # sleep between two looks lets pass.
        assert backend.looked.total() - before < len(FLOOD) / 2
        await pinned(pinning, "b", [number])


async def test_pinning_again_gains_nothing(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A flood that is released and pinned again is a first try again, in the same queue."""
    backend.hanging = {cid(number) for number in FLOOD}
    reconciler.start()
    await add(pinning, "a", FLOOD)
    await until(lambda: under_way(backend, FLOOD) == WORKERS)
    for number in FLOOD:
        await pinning.remove("a", cid(number))
    await add(pinning, "a", FLOOD)
    await add(pinning, "b", range(10))
    await pinned(pinning, "b", range(10))


async def test_a_content_at_the_end_of_a_flood_is_served_for_who_pins_it_too(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Somebody pins beforehand what others will want, behind five hundred that hang."""
    backend.hanging = {cid(number) for number in FLOOD}
    reconciler.start()
    await add(pinning, "a", FLOOD)
    await until(lambda: under_way(backend, FLOOD) == WORKERS)
    await add(pinning, "a", range(10))
    await asyncio.sleep(0.2)
    assert not any(backend.sent[cid(number)] for number in range(10))
    await add(pinning, "b", range(10))
    await pinned(pinning, "b", range(10))
