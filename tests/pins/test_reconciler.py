"""The reconciler over the real ledger: every promise reaches the backend, whatever fails."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import PinDeferred, PinFailed, PinNotFound, UpstreamUnavailable
from content_gateway.ledger.contents import SqliteWorkQueue
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.pins import SqlitePins
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    Listed,
    Outcome,
    TrackerStatus,
)
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.model.pins import Label, PinStatus, Removal
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.origins import OriginRules
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from tests.ledgers import cid, quota
from tests.waiting import eventually, until

QUICK = ReconcilePolicy(
    workers=16,
    idle=0.02,
    lease=1.0,
    first_backoff=0.01,
    longest_backoff=0.05,
    longest_failure_backoff=0.05,
    longest_unreachable_backoff=0.05,
)
PEER = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
PINNED, ABSENT = (
    BackendStatus(TrackerStatus.PINNED, replicas=1),
    BackendStatus(TrackerStatus.ABSENT),
)


class Backend:
    """A backend in miniature: holds what was sent, can be away, refuse, lose or be slow.

    With a *batch_age* a request is seen only after so many seconds, in the order they came."""

    def __init__(self, batch_age: float = 0.0) -> None:
        self.batch_age = batch_age
        self.held: set[Cid] = set()
        self.sent: Counter[Cid] = Counter()
        self.told: dict[Cid, Sequence[Multiaddr]] = {}
        self.unsent: Counter[Cid] = Counter()
        self.looked: Counter[Cid] = Counter()
        self.calls = 0
        self.refused: set[Cid] = set()
        self.deferred: set[Cid] = set()
        self.broken: set[Cid] = set()
        self.hanging: set[Cid] = set()
        self.is_unreachable = False
        self.is_rejecting_writes = False
        self.seconds = 0.0
        self.running = 0
        self.most_running = 0
        self.busy: Counter[Cid] = Counter()
        self.overlapped = False

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        self.calls += 1
        self.looked.update(cids)
        if self.is_unreachable:
            raise UpstreamUnavailable("away")
        return {cid: PINNED if cid in self.held else ABSENT for cid in cids}

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        if self.is_unreachable or self.is_rejecting_writes:
            raise UpstreamUnavailable("away")
        if cid in self.refused:
            raise PinFailed("no such block")
        if cid in self.deferred:
            raise PinDeferred("not now")
        if cid in self.broken:
            raise ZeroDivisionError
        self.sent[cid] += 1
        self.told[cid] = origins
        async with self._one_of(cid):
            progress(1, 100)
            await asyncio.sleep(3600 if cid in self.hanging else self.seconds)
        if not self.batch_age:
            self.held.add(cid)
            return PINNED
        asyncio.get_running_loop().call_later(self.batch_age * 0.8, self.held.add, cid)
        return BackendStatus(TrackerStatus.QUEUED)

    async def unpin(self, cid: Cid) -> None:
        if self.is_unreachable:
            raise UpstreamUnavailable("away")
        self.unsent[cid] += 1
        async with self._one_of(cid):
            await asyncio.sleep(self.seconds)
        if not self.batch_age:
            self.held.discard(cid)
        elif cid in self.held:  # else it is not there yet, and a cluster answers 404
            asyncio.get_running_loop().call_later(self.batch_age * 0.8, self.held.discard, cid)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        for held in sorted(self.held, key=str):
            yield Listed(held)

    @asynccontextmanager
    async def _one_of(self, cid: Cid) -> AsyncIterator[None]:
        self.busy[cid] += 1
        self.running += 1
        self.overlapped |= self.busy[cid] > 1
        self.most_running = max(self.most_running, self.running)
        try:
            yield
        finally:
            self.busy[cid] -= 1
            self.running -= 1


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
async def reconciler(database: LedgerDatabase, backend: Backend) -> AsyncIterator[Reconciler]:
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=QUICK)
    yield reconciler
    await reconciler.close()


@pytest.fixture
def pinning(database: LedgerDatabase, reconciler: Reconciler) -> Pinning:
    nothing = Denylist(None, None)
    return Pinning(SqlitePins(database, grace=0.2), denylist=nothing, wake=reconciler.wake)


async def final_for(pinning: Pinning, requestor: str, number: int) -> None:
    """Return once that requestor's pin is pinned."""
    await until(lambda: pinning.status(requestor, cid(number)).state is ContentState.PINNED)


async def reaches(pinning: Pinning, number: int, state: ContentState) -> PinStatus:
    """The status of pin *number* of requestor "a", once it has *state*."""

    def status() -> PinStatus | None:
        status = pinning.status("a", cid(number))
        return status if status.state is state else None

    found = await until(status)
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
    await reaches(pinning, 1, ContentState.PINNED)
    assert backend.sent == {cid(1): 1}


async def test_a_second_requestor_costs_the_backend_nothing(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Content that is pinned is not checked or sent again for another key."""
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await reaches(pinning, 1, ContentState.PINNED)
    looked = backend.looked[cid(1)]
    await pinning.add("b", str(cid(1)))
    assert pinning.status("b", cid(1)).state is ContentState.PINNED
    await asyncio.sleep(0.1)
    assert (backend.looked[cid(1)], backend.sent[cid(1)]) == (looked, 1)


async def test_it_is_idle_when_nothing_waits(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Not while anything is due, under way, or the backend is unreachable: a pin made then would
    wait."""
    assert reconciler.is_idle
    await pinning.add("a", str(cid(1)))
    assert not reconciler.is_idle
    backend.hanging.add(cid(1))
    reconciler.start()
    await until(lambda: backend.sent[cid(1)] == 1)
    assert not reconciler.is_idle
    await reconciler.close()
    await pinning.remove("a", cid(1))
    backend.is_unreachable = True
    await pinning.add("a", str(cid(2)))
    await reconciler.round()
    assert not reconciler.is_idle


async def test_an_outage_only_delays(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """While the backend is unreachable pins stay queued; soon after, they are pinned."""
    backend.is_unreachable = True
    reconciler.start()
    for number in range(30):
        await pinning.add("a", str(cid(number)))
    await asyncio.sleep(0.2)
    status = pinning.status("a", cid(0))
    assert status.state is ContentState.QUEUED
    backend.is_unreachable = False
    for number in range(30):
        done = await reaches(pinning, number, ContentState.PINNED)
        assert (done.attempts, done.error) == (0, None)
    assert set(backend.sent.values()) == {1}


async def test_many_are_looked_at_together(database: LedgerDatabase) -> None:
    """Their looks are due at moments of their own: while many are reconciled they wait for each
    other a little, so that one question is about several."""
    backend = Backend(batch_age=1.0)
    policy = replace(QUICK, batch=10, gather_many=0.2, first_backoff=0.1, longest_backoff=0.5)
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=policy)
    pinning = Pinning(
        SqlitePins(database, grace=0.2), denylist=Denylist(None, None), wake=reconciler.wake
    )
    for number in range(60):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    for number in range(60):
        await reaches(pinning, number, ContentState.PINNED)
    await reconciler.close()
    assert backend.looked.total() >= 5 * backend.calls  # half of it where none waits


async def test_a_refused_content_is_failed_and_tried_again(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What cannot be pinned is failed, with the reason, and is pinned when it can be."""
    backend.refused.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    failed = await reaches(pinning, 1, ContentState.FAILED)
    assert failed.error == "no such block"
    backend.refused.clear()
    assert (await reaches(pinning, 1, ContentState.PINNED)).error is None


async def test_what_the_backend_holds_is_not_sent(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Sent but not recorded, as after a crash: the backend is checked first, and believed."""
    backend.held.add(cid(1))
    await pinning.add("a", str(cid(1)))
    reconciler.start()
    await reaches(pinning, 1, ContentState.PINNED)
    assert not backend.sent


async def test_workers_are_bounded(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """However much is due, no more than the policy's workers talk to the backend at once."""
    backend.seconds = 0.02
    for number in range(60):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    for number in range(60):
        await reaches(pinning, number, ContentState.PINNED)
    assert backend.most_running == QUICK.workers


async def test_a_batch_gives_back_its_own_work_only(
    database: LedgerDatabase, pinning: Pinning, backend: Backend
) -> None:
    """What was final, and is under way again in a newer batch, still counts when the older batch
    ends: two workers never are three."""
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=replace(QUICK, workers=2))
    backend.deferred.add(cid(0))  # final at once, and due again soon
    backend.seconds = 0.4  # the other one of the batch takes longer
    for number in range(2):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    await until(lambda: cid(0) in backend.looked and pinning.status("a", cid(0)).attempts > 0)
    backend.deferred.clear()
    backend.hanging |= {cid(number) for number in (0, 2, 3)}
    await until(lambda: backend.busy[cid(0)] == 1)
    for number in range(2, 4):
        await pinning.add("a", str(cid(number)))
    await reaches(pinning, 1, ContentState.PINNED)
    await until(lambda: backend.running >= 2)
    await asyncio.sleep(0.2)
    assert backend.most_running == 2
    await reconciler.close()


async def test_one_worker_holds_a_content_across_reconcilers(
    database: LedgerDatabase, pinning: Pinning, backend: Backend
) -> None:
    """Three reconcilers on one ledger never reconcile one content at the same time, nor twice."""
    backend.seconds = 0.05
    others = [Reconciler(SqliteWorkQueue(database), backend, policy=QUICK) for _ in range(3)]
    for number in range(50):
        await pinning.add("a", str(cid(number)))
    for reconciler in others:
        reconciler.start()
    for number in range(50):
        await reaches(pinning, number, ContentState.PINNED)
    for reconciler in others:
        await reconciler.close()
    assert not backend.overlapped
    assert set(backend.sent.values()) == {1}


async def test_a_long_retrieval_keeps_its_lease(
    database: LedgerDatabase, pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Work that takes longer than a lease is not begun a second time by somebody else."""
    backend.seconds = 2.5
    other = Reconciler(SqliteWorkQueue(database), backend, policy=QUICK)
    await pinning.add("a", str(cid(1)))
    reconciler.start()
    other.start()
    await reaches(pinning, 1, ContentState.PINNED)
    await other.close()
    assert backend.sent[cid(1)] == 1


async def test_contents_that_hang_do_not_stop_the_others(
    database: LedgerDatabase, pinning: Pinning, backend: Backend
) -> None:
    """Many contents that never come leave workers for those that were not tried yet."""
    timeouts = ReconcilePolicy(
        workers=4, idle=0.02, first_attempt_timeout=0.05, first_backoff=0.01, longest_backoff=0.02
    )
    backend.hanging = {cid(number) for number in range(40)}
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=timeouts)
    for number in range(40):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    await until(lambda: all(backend.sent[cid(number)] for number in range(40)))
    for number in range(40, 50):
        await pinning.add("a", str(cid(number)))
    for number in range(40, 50):
        await reaches(pinning, number, ContentState.PINNED)
    assert pinning.status("a", cid(0)).state is not ContentState.PINNED
    await reconciler.close()


async def test_a_bug_in_a_backend_is_recorded_and_tried_again(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What nobody expected neither ends the reconciler nor leaves the pin without a reason."""
    backend.broken.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))

    await until(lambda: pinning.status("a", cid(1)).error is not None)
    backend.broken.clear()
    await reaches(pinning, 1, ContentState.PINNED)


async def test_a_stop_gives_the_work_back(
    database: LedgerDatabase, pinning: Pinning, backend: Backend
) -> None:
    """What a stopped reconciler was doing is due at once for the next one."""
    backend.seconds = 30.0
    patient = ReconcilePolicy(idle=0.02, lease=60.0)
    first = Reconciler(SqliteWorkQueue(database), backend, policy=patient)
    await pinning.add("a", str(cid(1)))
    first.start()

    await until(lambda: backend.sent[cid(1)] == 1)
    await first.close()
    backend.seconds = 0.0
    second = Reconciler(SqliteWorkQueue(database), backend, policy=patient)
    second.start()
    await reaches(pinning, 1, ContentState.PINNED)
    await second.close()


async def test_a_dead_worker_loses_its_lease(
    database: LedgerDatabase, pinning: Pinning, reconciler: Reconciler
) -> None:
    """A lease that nobody renews runs out, and its outcome is refused when it comes too late."""
    ledger = SqliteWorkQueue(database)
    await pinning.add("a", str(cid(1)))
    (item,) = await ledger.lease("dead", 0.2, quota(5))
    assert not await ledger.lease("other", 0.2, quota(5))
    reconciler.start()
    await reaches(pinning, 1, ContentState.PINNED)
    await ledger.record_outcomes("dead", [(item, Outcome(Event.SEEN_FAILED, 1.0, error="late"))])
    assert pinning.status("a", cid(1)).state is ContentState.PINNED


async def test_times_are_kept_to_the_millisecond(pinning: Pinning) -> None:
    """The ledger gives back the moment it was given."""
    before = datetime.now(UTC)
    pin = await pinning.add("a", str(cid(1)))
    assert pin is not None
    assert pinning.status("a", cid(1)).pin == pin
    assert pin.created_at > before - timedelta(milliseconds=1)


async def gone(backend: Backend, number: int) -> None:
    """Return once the backend does not hold the content."""

    await until(lambda: cid(number) not in backend.held)


async def test_the_last_requestor_takes_the_content_along(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """One of two requestors releases and nothing happens; with the other the content leaves."""
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await pinning.add("b", str(cid(1)))
    await reaches(pinning, 1, ContentState.PINNED)
    assert await pinning.remove("b", cid(1)) is Removal.STILL_HELD
    await asyncio.sleep(0.4)
    assert cid(1) in backend.held
    assert await pinning.remove("a", cid(1)) is Removal.RELEASED
    with pytest.raises(PinNotFound):
        pinning.status("a", cid(1))
    with pytest.raises(PinNotFound):
        await pinning.remove("a", cid(1))
    await gone(backend, 1)
    assert backend.unsent == {cid(1): 1}


async def test_what_is_pinned_again_within_the_grace_never_leaves(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A requestor that thinks better of it costs the backend nothing."""
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await reaches(pinning, 1, ContentState.PINNED)
    await pinning.remove("a", cid(1))
    await pinning.add("b", str(cid(1)))
    await asyncio.sleep(0.5)
    assert pinning.status("b", cid(1)).state is ContentState.PINNED
    assert (backend.sent[cid(1)], backend.unsent[cid(1)]) == (1, 0)


async def test_a_pin_during_its_contents_unpin_is_kept(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """Asked for again while the request to unpin is on its way: it goes and comes back."""
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await reaches(pinning, 1, ContentState.PINNED)
    backend.seconds = 0.3
    await pinning.remove("a", cid(1))

    await until(lambda: backend.unsent[cid(1)] == 1)
    await pinning.add("a", str(cid(1)))

    await until(lambda: backend.sent[cid(1)] == 2 and cid(1) in backend.held)
    await reaches(pinning, 1, ContentState.PINNED)
    assert not backend.overlapped


async def test_batched_changes_are_believed_when_they_are_old_enough(
    database: LedgerDatabase,
) -> None:
    """Pinned, released and pinned again within the batch age: the last request is what holds."""
    backend = Backend(batch_age=0.5)
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=QUICK)
    nothing = Denylist(None, None)
    ledger = SqlitePins(database, grace=0.0)
    pinning = Pinning(ledger, denylist=nothing, wake=reconciler.wake)
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await reaches(pinning, 1, ContentState.PINNED)
    assert backend.sent[cid(1)] == 1
    await pinning.remove("a", cid(1))

    await until(lambda: backend.unsent[cid(1)] == 1)
    await pinning.add("a", str(cid(1)))

    await until(lambda: backend.sent[cid(1)] == 2)
    await asyncio.sleep(1.0)
    await reaches(pinning, 1, ContentState.PINNED)
    assert cid(1) in backend.held
    await reconciler.close()


async def test_an_unpin_that_came_too_early_is_sent_again(database: LedgerDatabase) -> None:
    """Released inside the batch window of its pin: the cluster says 404 and pins it afterwards."""
    backend = Backend(batch_age=2.0)
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=QUICK)
    ledger = SqlitePins(database, grace=0.0)
    pinning = Pinning(ledger, denylist=Denylist(None, None), wake=reconciler.wake)
    reconciler.start()
    await pinning.add("a", str(cid(1)))

    await until(lambda: backend.sent[cid(1)] == 1)
    await pinning.remove("a", cid(1))

    async def is_forgotten() -> bool:
        return not (await SqliteWorkQueue(database).counts())

    await eventually(is_forgotten)
    assert cid(1) not in backend.held
    assert backend.unsent[cid(1)] == 2
    await reconciler.close()


async def test_many_are_looked_at_in_one_call(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What is due together is checked together."""
    backend.held |= {cid(number) for number in range(16)}
    for number in range(16):
        await pinning.add("a", str(cid(number)))
    assert await reconciler.round() == 16
    assert backend.calls == 1


async def test_a_backend_that_takes_nothing_is_left_alone_and_probed(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """While nothing can be sent, one content at a time is tried, and all of them afterwards."""
    backend.is_rejecting_writes = True
    for number in range(100):
        await pinning.add("a", str(cid(number)))
    reconciler.start()
    await asyncio.sleep(0.5)
    assert sum(backend.looked.values()) < 60
    backend.is_rejecting_writes = False
    for number in range(100):
        await reaches(pinning, number, ContentState.PINNED)


async def test_one_content_that_is_deferred_stops_nobody(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """A content that the backend does not take now waits by itself, with the reason."""
    backend.deferred.add(cid(0))
    reconciler.start()
    for number in range(30):
        await pinning.add("a", str(cid(number)))
    for number in range(1, 30):
        await reaches(pinning, number, ContentState.PINNED)
    status = pinning.status("a", cid(0))
    assert (status.state, status.error) == (ContentState.QUEUED, "not now")
    backend.deferred.clear()
    await reaches(pinning, 0, ContentState.PINNED)


async def test_progress_is_shown(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """What an attempt has brought in so far can be read while it goes on."""
    backend.hanging.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    status = await reaches(pinning, 1, ContentState.PINNING)
    assert (status.blocks, status.size, status.next_at) == (1, 100, None)


async def test_one_worker_does_everything(database: LedgerDatabase, backend: Backend) -> None:
    """With a single worker what failed is tried again, and what nobody holds is forgotten."""
    policy = replace(QUICK, workers=1)
    reconciler = Reconciler(SqliteWorkQueue(database), backend, policy=policy)
    ledger = SqlitePins(database, grace=0.0)
    pinning = Pinning(ledger, denylist=Denylist(None, None), wake=reconciler.wake)
    backend.refused.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))
    await reaches(pinning, 1, ContentState.FAILED)
    backend.refused.clear()
    await pinning.add("a", str(cid(2)))
    await reaches(pinning, 1, ContentState.PINNED)
    await reaches(pinning, 2, ContentState.PINNED)
    await pinning.remove("a", cid(1))

    async def is_forgotten() -> bool:
        return (await SqliteWorkQueue(database).counts()) == {ContentState.PINNED: 1}

    await eventually(is_forgotten)
    await reconciler.close()


async def test_a_row_that_is_no_content_stops_nobody(
    database: LedgerDatabase, pinning: Pinning, reconciler: Reconciler
) -> None:
    """A CID that this version cannot read is logged and left; the others are reconciled."""

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE contents SET cid = 'bafynothing'")

    await pinning.add("a", str(cid(1)))
    await database.write(spoil)
    await pinning.add("a", str(cid(2)))
    reconciler.start()
    await reaches(pinning, 2, ContentState.PINNED)


async def test_a_stubborn_content_can_find_the_backend_back(
    pinning: Pinning, reconciler: Reconciler, backend: Backend
) -> None:
    """With nothing else to do, one that has failed many times is a probe like any other."""
    backend.refused.add(cid(1))
    reconciler.start()
    await pinning.add("a", str(cid(1)))

    await until(lambda: pinning.status("a", cid(1)).attempts > 5)
    backend.refused.clear()
    backend.is_rejecting_writes = True
    await asyncio.sleep(0.2)
    backend.is_rejecting_writes = False
    await reaches(pinning, 1, ContentState.PINNED)


async def test_the_backend_is_told_who_has_it(database: LedgerDatabase, backend: Backend) -> None:
    """The origins of all pins of a content, and of none that is gone, go with the request."""
    ledger = SqlitePins(database, grace=0.0)
    rules = OriginRules()
    reconciler = Reconciler(
        SqliteWorkQueue(database),
        backend,
        policy=QUICK,
        origins=lambda content: rules.usable(ledger.origins(content)),
    )
    pinning = Pinning(ledger, denylist=Denylist(None, None), wake=reconciler.wake)
    here, there, gone = (f"/ip4/8.8.8.{n}/tcp/1/p2p/{PEER}" for n in (1, 2, 3))
    await pinning.describe("a", str(cid(1)), Label(origins=(here, "/wrong")))
    await pinning.describe("b", str(cid(1)), Label(origins=(there,)))
    await pinning.describe("c", str(cid(1)), Label(origins=(gone,)))
    await pinning.remove("c", cid(1))
    await pinning.add("d", str(cid(2)))
    reconciler.start()
    await final_for(pinning, "d", 2)
    await final_for(pinning, "a", 1)
    assert {origin.text for origin in backend.told[cid(1)]} == {here, there}
    assert backend.told[cid(2)] == ()
    await reconciler.close()
