"""The reconciler over the real ledger: every promise reaches the backend, whatever fails."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from content_gateway.errors import PinNotFound
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Event, Outcome
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.model.pins import Label, Removal
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.origins import OriginRules
from content_gateway.pins.rules import MAX_SEND_DELAY
from tests.ledgers import Clock, cid, quota
from tests.pins.reconciled import QUICK, Backend, Pins
from tests.waiting import eventually, until

PEER = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"


async def test_a_promise_reaches_the_backend(pins: Pins, backend: Backend) -> None:
    """A pin is queued when it is promised and pinned when the backend says so itself."""
    before = datetime.now(UTC)
    pin = await pins.pinning.add("a", str(cid(1)))
    assert pin is not None
    assert pin.created_at.tzinfo is UTC
    assert pin.created_at > before - timedelta(milliseconds=1)  # the ledger keeps milliseconds
    assert ((await pins.status(1)).pin, (await pins.status(1)).state) == (pin, ContentState.QUEUED)
    pins.start()
    await pins.pinned(1)
    assert backend.sent == {cid(1): 1}


async def test_a_second_requestor_costs_the_backend_nothing(pins: Pins, backend: Backend) -> None:
    """Content that is pinned is not checked or sent again for another key."""
    pins.start()
    await pins.add(1)
    await pins.pinned(1)
    checked = backend.checked[cid(1)]
    await pins.add(1, who="b")
    assert (await pins.status(1, "b")).state is ContentState.PINNED
    await asyncio.sleep(0.1)
    assert (backend.checked[cid(1)], backend.sent[cid(1)]) == (checked, 1)


async def test_it_is_idle_when_nothing_waits(pins: Pins, backend: Backend) -> None:
    """Not while anything is due, under way, or the backend is unreachable: a pin made then would
    wait."""
    assert await pins.reconciler.is_idle()
    await pins.add(1)
    assert not await pins.reconciler.is_idle()
    backend.hanging.add(cid(1))
    pins.start()
    await until(lambda: backend.sent[cid(1)] == 1)
    assert not await pins.reconciler.is_idle()
    await pins.reconciler.close()
    await pins.remove(1)
    backend.is_unreachable = True
    await pins.add(2)
    await pins.reconciler.round()
    assert not await pins.reconciler.is_idle()


async def test_an_outage_only_delays(pins: Pins, backend: Backend) -> None:
    """While the backend is unreachable pins stay queued; when it is back, they are pinned."""
    backend.is_unreachable = True
    pins.start()
    await pins.add(*range(30))
    await asyncio.sleep(0.2)
    assert (await pins.status(0)).state is ContentState.QUEUED
    backend.is_unreachable = False
    await pins.pinned(*range(30))
    statuses = [await pins.status(number) for number in range(30)]
    assert {(status.attempts, status.error) for status in statuses} == {(0, None)}
    assert set(backend.sent.values()) == {1}


async def test_many_are_checked_together(database: LedgerDatabase) -> None:
    """While many are reconciled a due status check waits a little for others, so that one call asks
    about several."""
    backend = Backend(batch_age=1.0)
    policy = replace(QUICK, batch=10, gather_many=0.2, first_backoff=0.1, longest_backoff=0.5)
    async with Pins(database, backend, policy) as pins:
        await pins.add(*range(60))
        pins.start()
        await pins.pinned(*range(60))
    assert backend.checked.total() >= 5 * backend.calls  # half of it where none waits


async def test_a_refused_content_is_failed_and_tried_again(pins: Pins, backend: Backend) -> None:
    """What cannot be pinned is failed, with the reason, and is pinned when it can be."""
    backend.refused.add(cid(1))
    pins.start()
    await pins.add(1)
    assert (await pins.reaches(ContentState.FAILED, 1)).error == "no such block"
    backend.refused.clear()
    assert (await pins.reaches(ContentState.PINNED, 1)).error is None


async def test_what_the_backend_holds_is_not_sent(pins: Pins, backend: Backend) -> None:
    """Sent but not recorded, as after a crash: the backend is checked first, and believed."""
    backend.held.add(cid(1))
    await pins.add(1)
    pins.start()
    await pins.pinned(1)
    assert not backend.sent


async def test_workers_are_bounded(pins: Pins, backend: Backend) -> None:
    """However much is due, no more than the policy's workers talk to the backend at once."""
    backend.seconds = 0.02
    await pins.add(*range(60))
    pins.start()
    await pins.pinned(*range(60))
    assert backend.most_running == QUICK.workers


async def test_a_batch_gives_back_its_own_work_only(
    database: LedgerDatabase, backend: Backend
) -> None:
    """A content that was final and is in a newer batch still counts as work when its older batch
    ends: two workers never become three."""
    backend.deferred.add(cid(0))  # final at once, and due again soon
    backend.seconds = 0.4  # the other one of the batch takes longer
    async with Pins(database, backend, replace(QUICK, workers=2)) as pins:
        await pins.add(0, 1)
        pins.start()
        await until(lambda: cid(0) in backend.checked)
        await pins.tried(0)
        backend.deferred.clear()
        backend.hanging |= {cid(number) for number in (0, 2, 3)}
        await until(lambda: backend.busy[cid(0)] == 1)
        await pins.add(2, 3)
        await pins.pinned(1)
        await until(lambda: backend.running >= 2)
        await asyncio.sleep(0.2)
        assert backend.most_running == 2


async def test_one_worker_holds_a_content_across_reconcilers(
    database: LedgerDatabase, backend: Backend
) -> None:
    """Three reconcilers on one ledger never reconcile one content at the same time, nor twice."""
    backend.seconds = 0.05
    async with (
        Pins(database, backend) as one,
        Pins(database, backend) as two,
        Pins(database, backend) as three,
    ):
        await one.add(*range(50))
        for pins in (one, two, three):
            pins.start()
        await one.pinned(*range(50))
    assert not backend.overlapped
    assert set(backend.sent.values()) == {1}


async def test_a_long_retrieval_keeps_its_lease(database: LedgerDatabase, backend: Backend) -> None:
    """Work that takes longer than a lease is not begun a second time by somebody else."""
    backend.seconds = 7.0
    policy = replace(QUICK, lease=3.0, first_attempt_timeout=60.0)
    async with Pins(database, backend, policy) as one, Pins(database, backend, policy) as other:
        await one.add(1)
        one.start()
        other.start()
        await one.pinned(1)
    assert backend.sent[cid(1)] == 1


async def test_contents_that_hang_do_not_stop_the_others(
    database: LedgerDatabase, backend: Backend
) -> None:
    """Many contents that never come leave workers for those that were not tried yet."""
    timeouts = ReconcilePolicy(
        # A busy machine pins what it can have within the first.
        workers=4,
        idle=0.02,
        first_attempt_timeout=0.4,
        first_backoff=0.01,
        longest_backoff=0.02,
    )
    backend.hanging = {cid(number) for number in range(40)}
    async with Pins(database, backend, timeouts) as pins:
        await pins.add(*range(40))
        pins.start()
        await until(lambda: all(backend.sent[cid(number)] for number in range(40)))
        await pins.add(*range(40, 50))
        await pins.pinned(*range(40, 50))
        assert (await pins.status(0)).state is not ContentState.PINNED


async def test_a_bug_in_a_backend_is_recorded_and_tried_again(pins: Pins, backend: Backend) -> None:
    """What nobody expected neither ends the reconciler nor leaves the pin without a reason."""
    backend.broken.add(cid(1))
    pins.start()
    await pins.add(1)
    await pins.explained(1)
    backend.broken.clear()
    await pins.pinned(1)


async def test_a_stop_gives_the_work_back(database: LedgerDatabase, backend: Backend) -> None:
    """What a stopped reconciler was doing is due at once for the next one."""
    backend.seconds = 30.0
    patient = ReconcilePolicy(idle=0.02, lease=60.0)
    async with Pins(database, backend, patient) as first:
        await first.add(1)
        first.start()
        await until(lambda: backend.sent[cid(1)] == 1)
    backend.seconds = 0.0
    async with Pins(database, backend, patient) as second:
        second.start()
        await second.pinned(1)


async def test_a_dead_worker_loses_its_lease(pins: Pins) -> None:
    """A lease that nobody renews runs out, and its outcome is refused when it comes too late."""
    await pins.add(1)
    (item,) = await pins.contents.lease("dead", 1.0, quota(5))
    assert not await pins.contents.lease("other", 1.0, quota(5))
    pins.start()
    await pins.pinned(1)
    late = Outcome(Event.SEEN_FAILED, 1.0, error="late")
    await pins.contents.record_outcomes("dead", [(item, late)])
    assert (await pins.status(1)).state is ContentState.PINNED


async def test_the_last_requestor_takes_the_content_along(pins: Pins, backend: Backend) -> None:
    """One of two requestors releases and nothing happens; with the other the content leaves."""
    pins.start()
    await pins.add(1)
    await pins.add(1, who="b")
    await pins.pinned(1)
    assert await pins.remove(1, "b") is Removal.STILL_HELD
    await asyncio.sleep(0.4)
    assert cid(1) in backend.held
    assert await pins.remove(1) is Removal.RELEASED
    with pytest.raises(PinNotFound):
        await pins.status(1)
    with pytest.raises(PinNotFound):
        await pins.remove(1)
    await until(lambda: cid(1) not in backend.held)
    assert backend.unpinned == {cid(1): 1}


async def test_what_is_pinned_again_within_the_grace_never_leaves(
    database: LedgerDatabase, backend: Backend
) -> None:
    """The backend gets no unpin and no second pin."""
    async with Pins(database, backend, grace=60.0) as pins:
        pins.start()
        await pins.add(1)
        await pins.pinned(1)
        await pins.remove(1)
        await pins.add(1, who="b")
        await asyncio.sleep(0.5)
        assert (await pins.status(1, "b")).state is ContentState.PINNED
    assert (backend.sent[cid(1)], backend.unpinned[cid(1)]) == (1, 0)


async def test_a_pin_during_its_contents_unpin_is_kept(pins: Pins, backend: Backend) -> None:
    """Asked for again while the request to unpin is on its way: it goes and comes back."""
    pins.start()
    await pins.add(1)
    await pins.pinned(1)
    backend.seconds = 0.3
    await pins.remove(1)
    await until(lambda: backend.unpinned[cid(1)] == 1)
    await pins.add(1)
    await until(lambda: backend.sent[cid(1)] == 2 and cid(1) in backend.held)
    await pins.pinned(1)
    assert not backend.overlapped


async def test_batched_changes_are_believed_when_they_are_old_enough(
    database: LedgerDatabase,
) -> None:
    """Pinned, released and pinned again within the batch age: the last request is what holds."""
    backend = Backend(batch_age=0.5)
    async with Pins(database, backend, grace=0.0) as pins:
        pins.start()
        await pins.add(1)
        await pins.pinned(1)
        assert backend.sent[cid(1)] == 1
        await pins.remove(1)
        await until(lambda: backend.unpinned[cid(1)] == 1)
        await pins.add(1)
        await until(lambda: backend.sent[cid(1)] == 2)
        await asyncio.sleep(1.0)
        await pins.pinned(1)
        assert cid(1) in backend.held


async def test_an_unpin_that_came_too_early_is_sent_again(database: LedgerDatabase) -> None:
    """Released inside the batch window of its pin: the cluster says 404 and pins it afterwards."""
    backend = Backend(batch_age=0.5)
    backend.late.add(cid(1))
    # What is released while it is leased waits for the end of that lease.
    async with Pins(database, backend, replace(QUICK, lease=10.0), grace=0.0) as pins:
        pins.start()
        await pins.add(1)
        await until(lambda: backend.sent[cid(1)] == 1)
        await pins.remove(1)

        async def is_forgotten() -> bool:
            return not (await pins.contents.counts())

        await eventually(is_forgotten, seconds=90.0)  # a lease, and three batch ages of 5.5 s
    assert cid(1) not in backend.held
    assert backend.unpinned[cid(1)] == 2


async def test_a_status_is_believed_as_of_when_it_was_asked_for(database: LedgerDatabase) -> None:
    """The batch age of an unpin may pass while the question is under way: the answer, which may be
    as old as the unpin, does not prove that the pin will stay."""
    clock = Clock()

    class Late(Backend):
        async def status(self, *asked: Any) -> Any:
            seen = await super().status(*asked)
            clock.now += 2.0
            return seen

    backend = Late(batch_age=60.0)
    backend.held.add(cid(1))  # its batches stay open as long as this test takes
    async with Pins(database, backend, grace=0.0, clock=clock) as pins:
        await pins.add(1)
        await pins.reconciler.round()
        assert (await pins.status(1)).state is ContentState.PINNED
        await pins.remove(1)
        await pins.reconciler.round()
        assert backend.unpinned[cid(1)] == 1
        clock.now += 60.0 + MAX_SEND_DELAY - 1.0
        await pins.add(1)
        await pins.reconciler.round()
        assert backend.sent[cid(1)] == 1


async def test_many_are_checked_in_one_call(pins: Pins, backend: Backend) -> None:
    backend.held |= {cid(number) for number in range(16)}
    await pins.add(*range(16))
    assert await pins.reconciler.round() == 16
    assert backend.calls == 1


async def test_a_backend_that_takes_nothing_is_left_alone_and_probed(
    pins: Pins, backend: Backend
) -> None:
    """While nothing can be sent, one content at a time is tried, and all of them afterwards."""
    backend.is_rejecting_writes = True
    await pins.add(*range(100))
    pins.start()
    await asyncio.sleep(0.5)
    assert backend.checked.total() < 60
    backend.is_rejecting_writes = False
    await pins.pinned(*range(100))


async def test_one_content_that_is_deferred_stops_nobody(pins: Pins, backend: Backend) -> None:
    """A content that the backend does not take now waits by itself, with the reason."""
    backend.deferred.add(cid(0))
    pins.start()
    await pins.add(*range(30))
    await pins.pinned(*range(1, 30))
    status = await pins.status(0)
    assert (status.state, status.error) == (ContentState.QUEUED, "not now")
    backend.deferred.clear()
    await pins.pinned(0)


async def test_progress_is_shown(pins: Pins, backend: Backend) -> None:
    """What an attempt has brought in so far can be read while it goes on."""
    backend.hanging.add(cid(1))
    pins.start()
    await pins.add(1)
    status = await pins.reaches(ContentState.PINNING, 1)
    assert (status.blocks, status.size, status.next_at) == (1, 100, None)


async def test_one_worker_does_everything(database: LedgerDatabase, backend: Backend) -> None:
    """With a single worker what failed is tried again, and what nobody holds is forgotten."""
    backend.refused.add(cid(1))
    async with Pins(database, backend, replace(QUICK, workers=1), grace=0.0) as pins:
        pins.start()
        await pins.add(1)
        await pins.reaches(ContentState.FAILED, 1)
        backend.refused.clear()
        await pins.add(2)
        await pins.pinned(1, 2)
        await pins.remove(1)

        async def is_forgotten() -> bool:
            return (await pins.contents.counts()) == {ContentState.PINNED: 1}

        await eventually(is_forgotten)


async def test_a_row_that_is_no_content_stops_nobody(database: LedgerDatabase, pins: Pins) -> None:
    """A CID that this version cannot read is logged and left; the others are reconciled."""

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE contents SET cid = 'bafynothing'")

    await pins.add(1)
    await database.write(spoil)
    await pins.add(2)
    pins.start()
    await pins.pinned(2)


async def test_a_slow_content_can_find_the_backend_back(pins: Pins, backend: Backend) -> None:
    """With nothing else to do, one that has failed many times is a probe like any other."""
    backend.refused.add(cid(1))
    pins.start()
    await pins.add(1)
    await pins.tried(1, times=6)
    backend.refused.clear()
    backend.is_rejecting_writes = True
    await asyncio.sleep(0.2)
    backend.is_rejecting_writes = False
    await pins.pinned(1)


async def test_the_backend_is_told_who_has_it(database: LedgerDatabase, backend: Backend) -> None:
    """The origins of all pins of a content, and of none that is gone, go with the request."""
    ledger, rules = SqlitePins(database, grace=0.0), OriginRules()
    here, there, gone = (f"/ip4/8.8.8.{n}/tcp/1/p2p/{PEER}" for n in (1, 2, 3))

    async def origins_of(content: Cid) -> Sequence[Multiaddr]:
        return rules.usable(await ledger.origins(content))

    async with Pins(database, backend, grace=0.0, origins=origins_of) as pins:
        for who, origins in (("a", (here, "/wrong")), ("b", (there,)), ("c", (gone,))):
            await pins.pinning.describe(who, str(cid(1)), Label(origins=origins))
        await pins.remove(1, "c")
        await pins.add(2, who="d")
        pins.start()
        await pins.pinned(2, who="d")
        await pins.pinned(1)
    assert {origin.text for origin in backend.origins[cid(1)]} == {here, there}
    assert backend.origins[cid(2)] == ()
