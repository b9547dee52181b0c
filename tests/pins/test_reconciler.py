"""The reconciler over the real ledger: every promise reaches the backend, whatever fails."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from content_gateway.blocking.blocklist import Blocklist
from content_gateway.content.cid import RAW, Cid
from content_gateway.content.multiformats import SHA2_256
from content_gateway.content.pins import ContentState, Holding, Outcome, PinStatus
from content_gateway.errors import PinFailed, UpstreamUnavailable
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Policy, Reconciler
from content_gateway.storage.ledger import SqliteLedger
from content_gateway.storage.sqlite import Database
from tests.service import eventually

QUICK = Policy(idle=0.02, lease=1.0, first_gap=0.01, longest_gap=0.05, longest_gap_failed=0.05)


class Backend:
    """A backend in miniature: holds what was submitted, can be away, refuse, or be slow."""

    def __init__(self) -> None:
        self.held: set[Cid] = set()
        self.submitted: Counter[Cid] = Counter()
        self.looked: Counter[Cid] = Counter()
        self.refused: set[Cid] = set()
        self.broken: set[Cid] = set()
        self.hanging: set[Cid] = set()
        self.is_away = False
        self.seconds = 0.0
        self.running = 0
        self.most_running = 0
        self.busy: Counter[Cid] = Counter()
        self.overlapped = False

    async def look(self, cid: Cid) -> Holding:
        self.looked[cid] += 1
        if self.is_away:
            raise UpstreamUnavailable("away")
        return Holding.PINNED if cid in self.held else Holding.ABSENT

    async def submit(self, cid: Cid) -> None:
        if self.is_away:
            raise UpstreamUnavailable("away")
        if cid in self.refused:
            raise PinFailed("no such block")
        if cid in self.broken:
            raise ZeroDivisionError
        self.submitted[cid] += 1
        self.busy[cid] += 1
        self.running += 1
        self.overlapped |= self.busy[cid] > 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(3600 if cid in self.hanging else self.seconds)
        finally:
            self.busy[cid] -= 1
            self.running -= 1
        self.held.add(cid)


def cid(number: int) -> Cid:
    return Cid(RAW, SHA2_256, number.to_bytes(32, "big"))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "ledger.sqlite") as database:
        yield database


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def reconciler(database: Database, backend: Backend) -> AsyncIterator[Reconciler]:
    reconciler = Reconciler(SqliteLedger(database), backend, policy=QUICK)
    yield reconciler
    await reconciler.close()


@pytest.fixture
def pinning(database: Database, reconciler: Reconciler) -> Pinning:
    nothing = Blocklist(None, None)
    return Pinning(SqliteLedger(database), blocking=nothing, wake=reconciler.wake)


async def settled(pinning: Pinning, number: int, state: ContentState) -> PinStatus:
    """The status of pin *number* of requestor "a", once it has *state*."""

    async def status() -> PinStatus | None:
        status = pinning.status("a", cid(number))
        return status if status.state is state else None

    found = await eventually(status)
    assert isinstance(found, PinStatus)
    return found


async def test_a_promise_reaches_the_backend(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A pin is queued when it is promised and pinned when the backend says so itself."""
    pin = await pinning.add("a", str(cid(1)))
    assert pin is not None
    assert pin.created_at.tzinfo is UTC
    assert pinning.status("a", cid(1)).state is ContentState.QUEUED
    reconciler.start()
    await settled(pinning, 1, ContentState.PINNED)
    assert backend.submitted == {cid(1): 1}


async def test_a_second_requestor_costs_the_backend_nothing(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Content that is pinned is not looked at or sent again for another key."""
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await settled(pinning, 1, ContentState.PINNED)
    looked = backend.looked[cid(1)]
    await pinning.add("b", str(cid(1)))
    assert pinning.status("b", cid(1)).state is ContentState.PINNED
    await asyncio.sleep(0.1)
    assert (backend.looked[cid(1)], backend.submitted[cid(1)]) == (looked, 1)


async def test_an_outage_only_delays(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """While the backend is away pins stay queued with the reason; soon after, they are pinned."""
    backend.is_away = True
    reconciler.start()
    for number in range(30):
        await pinning.add("a", str(cid(number)))
    await asyncio.sleep(0.2)
    status = pinning.status("a", cid(0))
    assert (status.state, status.error) == (ContentState.QUEUED, "away")
    backend.is_away = False
    for number in range(30):
        done = await settled(pinning, number, ContentState.PINNED)
        assert (done.attempts, done.error) == (0, None)
    assert set(backend.submitted.values()) == {1}


async def test_a_refused_content_is_failed_and_tried_again(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What cannot be pinned is failed, with the reason, and is pinned when it can be."""
    backend.refused.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    failed = await settled(pinning, 1, ContentState.FAILED)
    assert failed.error == "no such block"
    backend.refused.clear()
    assert (await settled(pinning, 1, ContentState.PINNED)).error is None


async def test_what_the_backend_holds_is_not_sent(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Sent but not recorded, as after a crash: the backend is looked at first, and believed."""
    backend.held.add(cid(1))
    await pinning.add("a", str(cid(1)))
    reconciler.start()
    await settled(pinning, 1, ContentState.PINNED)
    assert not backend.submitted


async def test_workers_are_bounded(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """However much is due, no more than the policy's workers talk to the backend at once."""
    backend.seconds = 0.02
    for number in range(60):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    for number in range(60):
        await settled(pinning, number, ContentState.PINNED)
    assert backend.most_running == QUICK.workers


async def test_one_worker_holds_a_content_across_reconcilers(
    database: Database, pinning: Pinning, backend: Backend
) -> None:
    """Three reconcilers on one ledger never tend one content at the same time, nor twice."""
    backend.seconds = 0.05
    others = [Reconciler(SqliteLedger(database), backend, policy=QUICK) for _ in range(3)]
    for number in range(50):
        await pinning.add("a", str(cid(number)))
    for reconciler in others:
        reconciler.start()
    for number in range(50):
        await settled(pinning, number, ContentState.PINNED)
    for reconciler in others:
        await reconciler.close()
    assert not backend.overlapped
    assert set(backend.submitted.values()) == {1}


async def test_a_long_retrieval_keeps_its_lease(
    database: Database, pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Work that takes longer than a lease is not begun a second time by somebody else."""
    backend.seconds = 2.5
    other = Reconciler(SqliteLedger(database), backend, policy=QUICK)
    await pinning.add("a", str(cid(1)))
    reconciler.start()
    other.start()
    await settled(pinning, 1, ContentState.PINNED)
    await other.close()
    assert backend.submitted[cid(1)] == 1


async def test_contents_that_hang_do_not_stop_the_others(
    database: Database, pinning: Pinning, backend: Backend
) -> None:
    """Many contents that never come leave workers for those that were not tried yet."""
    slices = Policy(workers=4, idle=0.02, first_slice=0.05, first_gap=0.01, longest_gap=0.02)
    backend.hanging = {cid(number) for number in range(40)}
    reconciler = Reconciler(SqliteLedger(database), backend, policy=slices)
    for number in range(40):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    await asyncio.sleep(1.0)  # all were tried; what is tried again takes longer and longer
    for number in range(40, 50):
        await pinning.add("a", str(cid(number)))
    for number in range(40, 50):
        await settled(pinning, number, ContentState.PINNED)
    assert pinning.status("a", cid(0)).state is ContentState.PINNING
    await reconciler.close()


async def test_a_bug_in_a_backend_is_recorded_and_tried_again(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What nobody expected neither ends the reconciler nor leaves the pin without a reason."""
    backend.broken.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))

    async def has_reason() -> bool:
        return pinning.status("a", cid(1)).error is not None

    await eventually(has_reason)
    backend.broken.clear()
    await settled(pinning, 1, ContentState.PINNED)


async def test_a_stop_gives_the_work_back(
    database: Database, pinning: Pinning, backend: Backend
) -> None:
    """What a stopped reconciler was doing is due at once for the next one."""
    backend.seconds = 30.0
    patient = Policy(idle=0.02, lease=60.0)
    first = Reconciler(SqliteLedger(database), backend, policy=patient)
    await pinning.add("a", str(cid(1)))
    first.start()

    async def begun() -> bool:
        return backend.submitted[cid(1)] == 1

    await eventually(begun)
    await first.close()
    backend.seconds = 0.0
    second = Reconciler(SqliteLedger(database), backend, policy=patient)
    second.start()
    await settled(pinning, 1, ContentState.PINNED)
    await second.close()


async def test_a_dead_worker_loses_its_lease(
    database: Database, pinning: Pinning, reconciler: Reconciler
) -> None:
    """A lease that nobody renews runs out, and its outcome is refused when it comes too late."""
    ledger = SqliteLedger(database)
    await pinning.add("a", str(cid(1)))
    (due,) = await ledger.lease("dead", 0.2, 5, 5)
    assert not await ledger.lease("other", 0.2, 5, 5)
    reconciler.start()
    await settled(pinning, 1, ContentState.PINNED)
    await ledger.settle("dead", due, Outcome(ContentState.FAILED, 1.0, "late"))
    assert pinning.status("a", cid(1)).state is ContentState.PINNED


async def test_times_are_kept_to_the_millisecond(pinning: Pinning) -> None:
    """The ledger gives back the moment it was given."""
    before = datetime.now(UTC)
    pin = await pinning.add("a", str(cid(1)))
    assert pin is not None
    assert pinning.status("a", cid(1)).pin == pin
    assert pin.created_at > before - timedelta(milliseconds=1)
