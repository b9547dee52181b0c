"""The reconciler: makes the backend hold what the ledger has promised, and nothing it has not.

Theory of operation. The ledger says which contents are *due*: desired and not known to be pinned,
or released by their last requestor. The reconciler leases some of them at a time, under its own
name and for thirty seconds, which it extends while it works; the ledger takes an outcome only from
whoever holds the lease, so that one worker at a time reconciles a content, across tasks and
processes, and a pin and an unpin of one CID never overlap. A worker that dies lets its lease run
out, and another one goes on; one that cannot extend it stops before that (leases.py).

Requestors do not wait for leases. Every first promise and every last release of a content gives it
a new *generation*. What was observed under an older one is thrown away, and the content is due
again at once: a pin that is added while its content is being unpinned is never mistaken for the pin
that went.

One round for a content is always the same. Ask the backend for its status, many contents in one
call, and believe only what it affirms. Then either record the outcome, or send a request, never
both blindly: what the backend holds is not sent again, and what is on its way is only checked
again, with backoff. Asking first makes every crash harmless: what was sent but not recorded is
seen, what was recorded but not sent is sent. A status check says how old the backend's word may be,
so that a listing can answer for many; what is in doubt is asked for now.

A cluster that batches its changes says yes before it knows them, and no status shows them yet. So
the ledger records, durably and before it is sent, *what* was last requested and *when*; until that
request is older than the backend's batch age, an absence is no reason to send it again, and a
presence after an unpin is no proof of a pin. A pin is final when it was seen once more after that
age. The rules are in rules.py, the states in model/content_state.py.

What nobody holds stays for a grace period, in case it is pinned again. Whether anybody holds it is
counted again under the lease, in the transaction that records the unpin; the row is forgotten only
when the backend says that the content is gone.

An unreachable backend is no verdict on a content: nothing changes but the reason that is shown, and
the reconciler stops leasing and probes with one content at a time until it is answered (where the
backend rejects writes only, what nobody holds still goes). Then a resync is asked for, since a
backend that comes back may have forgotten what it had confirmed. A backend that cannot pin a
content makes it *failed*, with the reason; it is tried again with longer backoff, and never given
up.

A content that takes for ever must not stop the others. A first attempt has five seconds, the second
one thirty, each later one twice as long; what a backend has fetched by then it need not fetch
again. And contents wait in three queues: at most half of the workers are for second attempts and
later status checks, at most a quarter for the slow ones that were tried many times.

Nor may a requestor stop the others, whatever its contents do. Contents are leased in turn by
requestor, and of the free workers one requestor gets only as many as leave half of what it has to
the others, in each queue and in all: so somebody who comes finds a free worker now, and not when an
attempt is over. One requestor alone still has `ReconcilePolicy.workers`. Where a backend queues
what it is sent, the same goes for its workers as soon as there are two (submission_window.py): each
may have so much there as is done soon, and what hangs is withdrawn, by an unpin that a pin
follows."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Outcome, WorkItem
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.pins.availability import Availability
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.backend_health import HealthLedger, HealthMonitor
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.clock_watch import ClockWatch
from content_gateway.pins.leases import Leases, lease_quota, owner_name
from content_gateway.pins.outcomes import Outcomes
from content_gateway.pins.queue_watch import BackendQueue, QueueWatch
from content_gateway.pins.requests import Submitter
from content_gateway.pins.rules import Action, DecisionRules
from content_gateway.pins.work_queue import WorkQueue

log = structlog.get_logger(__name__)


class Reconciler:
    """Owns the tasks that reconcile contents; runs between `start` and `close`."""

    def __init__(
        self,
        ledger: WorkQueue,
        backend: PinBackend,
        *,
        policy: ReconcilePolicy | None = None,
        health: HealthLedger | None = None,
        origins: Callable[[Cid], Sequence[Multiaddr]] = lambda _: (),
        returned: Callable[[], None] = lambda: None,
        queue: BackendQueue | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Word of the backend is left in *health*; *origins* says who has a content; *returned*
        is called when the backend answers again; *queue* is where it keeps what it was sent, if
        it does."""
        self._outcomes = Outcomes()
        self._ledger = ledger
        self._backend = backend
        self._policy = policy or ReconcilePolicy()
        self._rules = DecisionRules(self._policy, backend.batch_age)
        self._clock = clock
        self._owner = owner_name()
        self._awake = asyncio.Event()
        self._recently_leased, self._counted_at = 0.0, time.monotonic()
        sends = self._policy.sends
        self._send_slots = asyncio.Semaphore(sends) if sends else nullcontext()
        self._under_way: dict[int, WorkItem] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._availability = Availability(self._rules.backoffs.unreachable_backoff, clock)
        self._health = HealthMonitor(self._availability, health, returned=returned, clock=clock)
        self._queue = None
        if queue is not None:
            self._queue = QueueWatch(
                queue, self._rules, waiting_requestors=ledger.waiting_requestors, clock=clock
            )
        self._sender = Submitter(
            ledger, backend, self._owner, self._rules, self._health, origins=origins, clock=clock
        )
        self._watch = ClockWatch(
            ledger, longest=self._rules.longest_wait, lease=self._policy.lease, clock=clock
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due or under way, and the backend answers: what comes now is begun
        at once."""
        with suppress(StorageUnavailable):
            quota = lease_quota(self._policy, self._under_way.values(), self._availability)
            return not (
                self._under_way or self._availability.is_unreachable or self._ledger.any_due(quota)
            )
        return False

    async def first_outcome(self, cid: Cid, seconds: float) -> bool:
        """Whether something was observed of *cid* since the call, within *seconds*.

        False at once while the backend is unreachable, and where many wait already."""
        return not self._availability.is_unreachable and await self._outcomes.first(cid, seconds)

    def wake(self) -> None:
        """Say that something may be due."""
        self._awake.set()

    def start(self) -> None:
        """Begin to reconcile contents, in a task of the reconciler's own."""
        self._main = asyncio.create_task(self._run(), name="reconciler")

    async def close(self) -> None:
        """End all work; what was under way is due again at once, for whoever comes next."""
        tasks = [*self._batches, *([self._main] if self._main else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not tasks:
            return
        try:
            await self._ledger.release(self._owner)
        except StorageUnavailable as wrong:
            log.warning("leases were not released, they will run out", reason=wrong.detail)

    async def round(self) -> int:
        """Reconcile what is due now, once, and say how many contents that was; for who has no
        task."""
        before = set(self._batches)
        number = await self._lease_due()
        for batch in self._batches - before:
            await batch
        return number

    async def _run(self) -> None:
        while True:
            self._awake.clear()
            try:
                await self._watch.check()
                await self._health.store()
                self._count_leased(await self._lease_due())
            except StorageUnavailable as wrong:
                log.error("the reconciler cannot read the ledger", reason=wrong.detail)
            except Exception as bug:
                log.error("the reconciler failed, and goes on", exc_info=bug)
            # Another process may have promised something. Not with wait_for: before Python 3.12
            # it can swallow the cancellation that ends this task.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.idle):
                    await self._awake.wait()
            await asyncio.sleep(self._pause())

    def _count_leased(self, number: int) -> None:
        """So many were leased now; what was leased earlier counts half for each second since."""
        now = time.monotonic()
        self._recently_leased = self._recently_leased * math.exp2(self._counted_at - now) + number
        self._counted_at = now

    def _pause(self) -> float:
        """Seconds until the ledger is checked again: what is promised together is leased
        together, and in an outage a promise changes nothing."""
        policy = self._policy
        if self._availability.is_unreachable:
            return policy.idle
        return policy.gather_many if self._recently_leased > policy.batch else policy.gather

    async def _lease_due(self) -> int:
        """Lease what is due and free workers may take, and begin to reconcile it."""
        if self._queue is not None:
            blocking = await self._queue.check(self._awake.set)
            if blocking:
                await self._ledger.trigger(blocking)
        quota = lease_quota(self._policy, self._under_way.values(), self._availability)
        if not quota.most or not self._ledger.any_due(quota):
            return 0
        items = await self._ledger.lease(self._owner, self._policy.lease, quota)
        # A lease of ours that has run out while its content is still reconciled was only renewed.
        items = [item for item in items if item.id not in self._under_way]
        self._under_way |= {item.id: item for item in items}
        for start in range(0, len(items), self._policy.batch):
            batch = asyncio.create_task(
                self._reconcile(items[start : start + self._policy.batch]), name="reconcile"
            )
            self._batches.add(batch)
            batch.add_done_callback(self._batch_done)
        return len(items)

    def _decide(self, item: WorkItem, seen: BackendStatus, now: float) -> Action | Outcome:
        action = self._rules.decide(item, seen, now)
        return self._queue.adjust(item, seen, action) if self._queue else action

    def _batch_done(self, batch: asyncio.Task[None]) -> None:
        self._batches.discard(batch)
        self._awake.set()
        if not batch.cancelled() and batch.exception():
            log.error("contents could not be reconciled", exc_info=batch.exception())

    async def _reconcile(self, items: Sequence[WorkItem]) -> None:
        """Look at *items* together, take note of some, and send for the others, each by itself."""
        leases = Leases(items, partial(self._ledger.renew, self._owner), self._policy.lease)
        try:
            async with leases:
                seen = await self._query(items)
                if isinstance(seen, Exception):
                    broke = [
                        (item, self._rules.after_error(item, seen, attempted=False))
                        for item in items
                    ]
                    await self._record(broke, leases)
                    return
                now = self._clock()
                actions = [(item, self._decide(item, seen[item.cid], now)) for item in items]
                requests = [
                    (item, action) for item, action in actions if isinstance(action, Action)
                ]
                sending = [
                    asyncio.create_task(
                        self._send(item, action, seen[item.cid], leases), name="send"
                    )
                    for item, action in requests
                ]
                for (item, _), task in zip(requests, sending, strict=True):
                    leases.cancel_on_loss(item, task)
                observed = [
                    (item, action) for item, action in actions if isinstance(action, Outcome)
                ]
                # All go on to their own end: what the ledger did not take, a lease will mend.
                work = [self._record(observed, leases), *sending]
                for error in await asyncio.gather(*work, return_exceptions=True):
                    if isinstance(error, Exception):
                        log.error("an outcome was not kept", reason=repr(error))
        finally:
            # Only what is still ours: what was recorded may be in a newer batch by now.
            for item in leases.remaining:
                self._under_way.pop(item.id, None)

    async def _query(self, items: Sequence[WorkItem]) -> Mapping[Cid, BackendStatus] | Exception:
        """What the backend holds, or why it could not be seen."""
        now = self._clock()
        known = [
            item for item in items if not (self._queue and self._queue.needs_fresh_status(item))
        ]
        words = [(item.cid, self._rules.max_status_age(item, now)) for item in known]
        ages = {cid: age for cid, age in words if age is not None}
        try:
            unsent = {item.cid for item in items if item.last_request is None}
            seen = await self._backend.status([item.cid for item in items], ages, unsent)
        except Exception as error:
            self._health.record_answer(error, is_write=False)
            return error
        self._health.record_answer(None, is_write=False)
        self._health.record_peers(seen.values())
        return seen

    async def _send(
        self, item: WorkItem, action: Action, seen: BackendStatus, leases: Leases
    ) -> None:
        """Do *action* about *item* if that is still wanted, when its turn has come."""
        if action is Action.PIN and self._queue and not await self._queue.wait_for_room(item, seen):
            await self._record([(item, self._rules.postponed(item))], leases)
            return
        async with self._send_slots:
            await self._sender.send(
                item, action, seen, lambda known, outcome: self._record([(known, outcome)], leases)
            )

    async def _record(self, outcomes: Sequence[tuple[WorkItem, Outcome]], leases: Leases) -> None:
        if not outcomes:
            return
        for item, outcome in outcomes:
            if self._queue is not None:
                self._queue.record_outcome(item, outcome)
            leases.given_back(
                item
            )  # from here on it runs out by itself, should the ledger not take this
        try:
            await self._ledger.record_outcomes(self._owner, outcomes)
        finally:
            for item, _ in outcomes:
                self._under_way.pop(item.id, None)
        self._health.record_outcomes(outcome.status for _, outcome in outcomes)
        for item, outcome in outcomes:
            self._outcomes.record_answer(item.cid)
            if outcome.error is not None:
                log.warning("not pinned yet", cid=str(item.cid), reason=outcome.error)
            if outcome.again_in is not None and outcome.again_in < self._policy.idle:
                asyncio.get_running_loop().call_later(outcome.again_in + 0.01, self._awake.set)
        self._awake.set()
