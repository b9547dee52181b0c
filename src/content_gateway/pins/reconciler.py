"""The reconciler: makes the pin backend hold exactly what the ledger has promised.

Theory of operation. It works as a Kubernetes controller does: compare the desired state (the
ledger) with the observed one (the backend's status), do one step towards the desired, check again.

Leases. A content is *due* when it is promised and not known to be pinned, or when its last
requestor has released it. The reconciler leases due contents for thirty seconds and renews the
leases while it works (leases.py). They count from when they were asked for. The ledger accepts an
outcome only from the holder of the lease. So one worker at a time handles a content, across tasks
and processes, and a pin and an unpin of one CID never overlap. When a worker dies, its lease
expires and another worker continues.

Generations. Requestors do not wait for leases. The first promise of a content and its last release
give it a new *generation*. An outcome that was observed under an older generation is dropped, and
the content is due at once. So a pin added while its content is unpinned is never taken for the old
one.

One round. Ask the backend for the status of many contents in one call. For each content, either
record an outcome or send one request. What the backend holds already is not requested again; what
is in progress is checked again with backoff. Because the status comes first, a crash does no harm:
a request that was sent but not recorded shows in the status, and one that was recorded but not sent
is sent again. The status call says how old an answer may be, so that one listing can answer for
many contents; contents in doubt are asked for directly.

Batches. A cluster that batches changes accepts them before they are durable or visible. So the
ledger records each request, and its time, durably before it is sent. Until that time is longer ago
than the backend's batch age, "absent" is no reason to pin again, and "present" after an unpin does
not prove a pin. A pin is final when it is seen once more after the batch age. The rules are in
rules.py, the states in model/content_state.py.

Release. A released content stays for a grace period, in case it is pinned again. The transaction
that records the unpin request checks again that nobody holds the content. Its row is deleted only
when the backend has accepted the unpin and says that the content is gone, two batch ages after it:
what rests on a status of one batch age ago is then never older than the unpin.

Failures. An unreachable backend says nothing about a content: states stay, only the displayed
reason changes. The reconciler then leases one content at a time, as a probe, until the backend
answers. Where the backend rejects writes only, released contents are still leased. After an outage
it triggers a resync, since the backend may have lost what it had confirmed. A content that the
backend cannot pin becomes *failed*, with the reason, and is retried for ever, with a longer
backoff.

Slow contents must not block others. The first attempt has five seconds, the second thirty, each
later one twice as long; the backend keeps what it fetched before. There are three queues: at most
half of the workers serve retries and later status checks, at most a quarter slow contents.

One requestor must not block others. Contents are leased in turn by requestor, and a requestor gets
only so many free workers that half of its number stays free, in each queue and in total. So a
newcomer finds a free worker at once. A single requestor still has `ReconcilePolicy.workers`. The
same holds for a backend's own queue, once two requestors use it (submission_window.py)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from content_gateway.pins.outcomes import Waiters
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
        origins: Callable[[Cid], Awaitable[Sequence[Multiaddr]]] | None = None,
        returned: Callable[[], None] = lambda: None,
        queue: BackendQueue | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """*health*: where the backend's health is stored. *origins*: addresses of nodes that have
        a content. *returned*: called when an outage is over. *queue*: the backend's own queue of
        requests, None if it has none."""
        self._outcomes = Waiters()
        self._ledger = ledger
        self._backend = backend
        self._policy = policy or ReconcilePolicy()
        self._rules = DecisionRules(self._policy, backend.batch_age)
        self._clock = clock
        self._monotonic = monotonic
        self._owner = owner_name()
        self._awake = asyncio.Event()
        self._recently_leased, self._counted_at = 0.0, monotonic()
        sends = self._policy.sends
        self._send_slots = asyncio.Semaphore(sends) if sends else nullcontext()
        self._under_way: dict[int, WorkItem] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._availability = Availability(self._rules.backoffs.unreachable_backoff, clock)
        self._health = HealthMonitor(
            self._availability, health, returned=returned, clock=clock, ticks=monotonic
        )
        self._queue = None
        if queue is not None:
            self._queue = QueueWatch(
                queue, self._rules, waiting_requestors=ledger.waiting_requestors, clock=clock
            )
        self._sender = Submitter(
            ledger,
            backend,
            self._owner,
            self._rules,
            self._health,
            origins=origins or _no_origins,
            clock=clock,
        )
        self._watch = ClockWatch(
            ledger,
            longest=self._rules.longest_wait,
            lease=self._policy.lease,
            clock=clock,
            monotonic=monotonic,
        )

    async def is_idle(self) -> bool:
        """Whether a new pin would be started at once: nothing is due, and the backend answers."""
        with suppress(StorageUnavailable):
            quota = lease_quota(self._policy, self._under_way.values(), self._availability)
            return not (
                self._under_way
                or self._availability.is_unreachable
                or await self._ledger.any_due(quota)
            )
        return False

    async def first_outcome(self, cid: Cid, seconds: float) -> bool:
        """Whether a status of *cid* was recorded within *seconds*. False at once in an outage of
        the backend, or when too many callers wait already."""
        return not self._availability.is_unreachable and await self._outcomes.first(cid, seconds)

    def wake(self) -> None:
        """Check the ledger soon: something may be due."""
        self._awake.set()

    def start(self) -> None:
        """Start the reconciler's task."""
        self._main = asyncio.create_task(self._run(), name="reconciler")

    async def close(self) -> None:
        """Cancel all work and release the leases, so that other processes can continue at once."""
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
        """Lease what is due, reconcile it, and return the number of contents. For callers that
        did not `start` the task (commands, tests)."""
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
            # A timeout, since another process may add pins. Not asyncio.wait_for: before Python
            # 3.12 it can swallow the cancellation that ends this task (cpython #86296).
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.idle):
                    await self._awake.wait()
            await asyncio.sleep(self._pause())

    def _count_leased(self, number: int) -> None:
        """Add to the recent rate of leases, which decays with a half-life of one second."""
        now = self._monotonic()
        self._recently_leased = self._recently_leased * math.exp2(self._counted_at - now) + number
        self._counted_at = now

    def _pause(self) -> float:
        """Seconds until the ledger is read again. A short pause lets contents gather, so that one
        status call serves many. In an outage new pins can wait for the next probe."""
        policy = self._policy
        if self._availability.is_unreachable:
            return policy.idle
        return policy.gather_many if self._recently_leased > policy.batch else policy.gather

    async def _lease_due(self) -> int:
        """Lease what is due, as far as workers are free, and start batches; how many contents."""
        if self._queue is not None:
            hanging = await self._queue.check(self._awake.set)
            if hanging:
                await self._ledger.trigger(hanging)
        quota = lease_quota(self._policy, self._under_way.values(), self._availability)
        if not quota.most or not await self._ledger.any_due(quota):
            return 0
        asked_at = asyncio.get_running_loop().time()
        items = await self._ledger.lease(self._owner, self._policy.lease, quota)
        # If renewing was late, our own lease had expired and we got the content a second time: its
        # first batch still works on it.
        items = [item for item in items if item.id not in self._under_way]
        self._under_way |= {item.id: item for item in items}
        for start in range(0, len(items), self._policy.batch):
            batch = asyncio.create_task(
                self._reconcile(items[start : start + self._policy.batch], asked_at),
                name="reconcile",
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

    async def _reconcile(self, items: Sequence[WorkItem], leased_at: float) -> None:
        """One batch: one status call for all *items*, one transaction for all outcomes that it
        leads to, and one task for each request."""
        renew = partial(self._ledger.renew, self._owner)
        leases = Leases(items, renew, self._policy.lease, leased_at)
        try:
            async with leases:
                asked_at = self._clock()
                seen = await self._query(items, asked_at)
                # No status: nothing is known of any content, so nothing may be sent.
                if isinstance(seen, Exception):
                    broke = [
                        (item, self._rules.after_error(item, seen, attempted=False))
                        for item in items
                    ]
                    await self._record(broke, leases)
                    return
                # By the time of the question, as that of how old the answer may be: meanwhile the
                # batch age of a request may have passed, and the answer is older than that.
                actions = [(item, self._decide(item, seen[item.cid], asked_at)) for item in items]
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
                # return_exceptions: one failed write must not cancel the other requests. Without a
                # recorded outcome a content is due again when its lease expires.
                work = [self._record(observed, leases), *sending]
                for error in await asyncio.gather(*work, return_exceptions=True):
                    if isinstance(error, Exception):
                        log.error("an outcome was not kept", reason=repr(error))
        finally:
            # Only what this batch still holds: a recorded content may be in a newer batch by now.
            for item in leases.remaining:
                self._under_way.pop(item.id, None)

    async def _query(
        self, items: Sequence[WorkItem], now: float
    ) -> Mapping[Cid, BackendStatus] | Exception:
        """The backend's status of *items* at *now*, or the error of the call. Also reports to the
        health monitor that the backend answered or not."""
        known = [
            item
            for item in items
            if not (self._queue and self._queue.windows.needs_fresh_status(item))
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
        """Send *action* for *item* once the backend's queue has room, and record the outcome."""
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
            # Stop renewing first: if the write below fails, the lease must expire by itself.
            leases.given_back(item)
        try:
            await self._ledger.record_outcomes(self._owner, outcomes)
        finally:
            for item, _ in outcomes:
                self._under_way.pop(item.id, None)
        log.debug("contents were reconciled", number=len(outcomes))
        self._health.record_outcomes(outcome.status for _, outcome in outcomes)
        for item, outcome in outcomes:
            self._outcomes.record_answer(item.cid)
            if outcome.error is not None:
                log.warning("not pinned yet", cid=str(item.cid), reason=outcome.error)
            # The task wakes every `idle` seconds anyway; shorter backoffs need a timer.
            if outcome.again_in is not None and outcome.again_in < self._policy.idle:
                asyncio.get_running_loop().call_later(outcome.again_in + 0.01, self._awake.set)
        self._awake.set()


async def _no_origins(_: Cid) -> Sequence[Multiaddr]:
    return ()
