"""The reconciler: makes the backend hold what the ledger has promised, and nothing it has not.

Theory of operation. The ledger says which contents are *due*: promised and not known to be
pinned, or let go of by their last requestor. The reconciler leases some of them at a time, under
its own name and for thirty seconds, which it extends while it works; the ledger takes an outcome
only from whoever holds the lease, so that one worker at a time tends a content, across tasks and
processes, and a pin and an unpin of one CID never overlap. A worker that dies lets
its lease run out, and another one goes on; one that cannot extend it stops what it does before
that (leases.py).

Requestors do not wait for leases. Every first promise and every last release of a content gives
it a new *generation*. What was learned under an older one is thrown away, and the content is due
again at once: a pin that is added while its content is on the way out is never mistaken for the
pin that went.

Tending is always the same. *Look*: ask the backend what it holds, many contents in one call, and
believe only its positive word. Then either take note, or *send* a wish, never both blindly: what
the backend holds already is not sent again, and what is on its way is only looked at, with
growing gaps. Looking first makes every crash harmless: what was sent but not recorded is seen,
what was recorded but not sent is sent. A look says how old the backend's word may be, so that a
listing can answer for many; what is in doubt is asked for now.

A cluster that batches its changes says yes before it knows them, and a look does not see them
yet. So the ledger records, durably and before it is sent, *what* was last wished and *when*; until
that wish is older than the backend's batch age, an absence is no reason to send it again, and a
presence after an unpin is no proof of a pin. A pin counts as settled when it was seen once more
after that age. The rules are in rules.py, the states in model/content_state.py.

What nobody holds stays for a grace period, in case it is pinned again. Whether anybody holds it
is counted again under the lease, in the transaction that records the wish to let go; the row is
forgotten only when the backend says that the content is gone.

An unreachable backend is no verdict on a content: nothing changes but the reason that is shown,
and the reconciler stops leasing and probes with one content at a time until it is answered (where
only pins are not taken, what nobody holds still goes); then
a sweep is asked for, since a backend that comes back may have forgotten what it had confirmed. A
backend that cannot pin a content makes it *failed*, with the reason; it is tried again with
longer gaps, and never given up.

A content that takes for ever must not stop the others. A first try gets a *slice* of five
seconds, the second one thirty, each later one twice as long; what a backend has fetched by then it
need not fetch again. And contents wait in *lanes*: at most half of the workers are for second tries
and later looks, at most a quarter for those that were tried many times.

Nor may a requestor stop the others, whatever its contents do. Contents are leased in turn by
requestor, and of the free workers one requestor gets only as many as leave half of what it has to
the others, in each lane and in all: so somebody who comes finds a free worker now, and not when a
slice is over. One requestor alone still has `ReconcilePolicy.workers`. Where a backend queues what
it is sent, the same goes for its workers as soon as there are two (submission_window.py): each may
have so much there as is done soon, and what hangs is taken back by a wish to let go that a pin
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
from content_gateway.pins.clock_watch import ClockWatch
from content_gateway.pins.lease_quota import lease_quota
from content_gateway.pins.leases import Leases, owner_name
from content_gateway.pins.outcomes import Outcomes
from content_gateway.pins.queue_watch import BackendQueue, QueueWatch
from content_gateway.pins.requests import Submitter
from content_gateway.pins.rules import Action, DecisionRules, ReconcilePolicy
from content_gateway.pins.work_queue import WorkQueue

log = structlog.get_logger(__name__)


class Reconciler:
    """Owns the tasks that tend contents; runs between `start` and `close`."""

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
        self._lately, self._noted_at = 0.0, time.monotonic()
        sends = self._policy.sends
        self._turn = asyncio.Semaphore(sends) if sends else nullcontext()
        self._under_way: dict[int, WorkItem] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._outage = Availability(self._rules.unreachable_backoff, clock)
        self._health = HealthMonitor(self._outage, health, returned=returned, clock=clock)
        self._queue = None
        if queue is not None:
            self._queue = QueueWatch(queue, self._rules, in_line=ledger.in_line, clock=clock)
        self._sender = Submitter(
            ledger, backend, self._owner, self._rules, self._health, origins=origins, clock=clock
        )
        self._watch = ClockWatch(
            ledger, longest=self._rules.longest, lease=self._policy.lease, clock=clock
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due or under way, and the backend answers: what comes now is begun
        at once."""
        with suppress(StorageUnavailable):
            quota = lease_quota(self._policy, self._under_way.values(), self._outage)
            return not (self._under_way or self._outage.is_on or self._ledger.any_due(quota))
        return False

    async def first_outcome(self, cid: Cid, seconds: float) -> bool:
        """Whether something was learned about *cid* since the call, within *seconds*.

        False at once while the backend is away, and where many wait already."""
        return not self._outage.is_on and await self._outcomes.first(cid, seconds)

    def wake(self) -> None:
        """Say that something may be due."""
        self._awake.set()

    def start(self) -> None:
        """Begin to tend contents, in a task of the reconciler's own."""
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
        """Tend what is due now, once, and say how many contents that was; for who has no task."""
        before = set(self._batches)
        number = await self._hand_out()
        for batch in self._batches - before:
            await batch
        return number

    async def _run(self) -> None:
        while True:
            self._awake.clear()
            try:
                await self._watch.look()
                await self._health.keep()
                self._note(await self._hand_out())
            except StorageUnavailable as wrong:
                log.error("reconciler cannot read the ledger", reason=wrong.detail)
            except Exception as bug:
                log.error("reconciler stumbled, and goes on", exc_info=bug)
            # Another process may have promised something. Not with wait_for: before Python 3.12
            # it can swallow the cancellation that ends this task.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.idle):
                    await self._awake.wait()
            await asyncio.sleep(self._pause())

    def _note(self, number: int) -> None:
        """So many were leased now; what was leased earlier counts half for each second since."""
        now = time.monotonic()
        self._lately = self._lately * math.exp2(self._noted_at - now) + number
        self._noted_at = now

    def _pause(self) -> float:
        """Seconds until the ledger is looked at again: what is promised together is leased
        together, and in an outage a promise changes nothing."""
        policy = self._policy
        if self._outage.is_on:
            return policy.idle
        return policy.gather_many if self._lately > policy.batch else policy.gather

    async def _hand_out(self) -> int:
        """Lease what is due and free workers may take, and begin to tend it."""
        if self._queue is not None:
            in_the_way = await self._queue.look(self._awake.set)
            if in_the_way:
                await self._ledger.trigger(in_the_way)
        shares = lease_quota(self._policy, self._under_way.values(), self._outage)
        if not shares.most or not self._ledger.any_due(shares):
            return 0
        dues = await self._ledger.lease(self._owner, self._policy.lease, shares)
        # A lease of ours that has run out while its content is still tended was only renewed.
        dues = [due for due in dues if due.id not in self._under_way]
        self._under_way |= {due.id: due for due in dues}
        for start in range(0, len(dues), self._policy.batch):
            batch = asyncio.create_task(
                self._tend(dues[start : start + self._policy.batch]), name="tend"
            )
            self._batches.add(batch)
            batch.add_done_callback(self._tended)
        return len(dues)

    def _decide(self, due: WorkItem, seen: BackendStatus, now: float) -> Action | Outcome:
        act = self._rules.decide(due, seen, now)
        return self._queue.judge(due, seen, act) if self._queue else act

    def _tended(self, batch: asyncio.Task[None]) -> None:
        self._batches.discard(batch)
        self._awake.set()
        if not batch.cancelled() and batch.exception():
            log.error("contents could not be tended", exc_info=batch.exception())

    async def _tend(self, dues: Sequence[WorkItem]) -> None:
        """Look at *dues* together, take note of some, and send for the others, each by itself."""
        leases = Leases(dues, partial(self._ledger.renew, self._owner), self._policy.lease)
        try:
            async with leases:
                seen = await self._look(dues)
                if isinstance(seen, Exception):
                    broke = [(due, self._rules.broke(due, seen, attempted=False)) for due in dues]
                    await self._settle(broke, leases)
                    return
                now = self._clock()
                acts = [(due, self._decide(due, seen[due.cid], now)) for due in dues]
                wishes = [(due, act) for due, act in acts if isinstance(act, Action)]
                sending = [
                    asyncio.create_task(self._send(due, act, seen[due.cid], leases), name="send")
                    for due, act in wishes
                ]
                for (due, _), task in zip(wishes, sending, strict=True):
                    leases.ends_with(due, task)
                noted = [(due, act) for due, act in acts if isinstance(act, Outcome)]
                # All go on to their own end: what the ledger did not take, a lease will mend.
                work = [self._settle(noted, leases), *sending]
                for error in await asyncio.gather(*work, return_exceptions=True):
                    if isinstance(error, Exception):
                        log.error("an outcome was not kept", reason=repr(error))
        finally:
            # Only what is still ours: what was settled may be in a newer batch by now.
            for due in leases.left:
                self._under_way.pop(due.id, None)

    async def _look(self, dues: Sequence[WorkItem]) -> Mapping[Cid, BackendStatus] | Exception:
        """What the backend holds, or why it could not be seen."""
        now = self._clock()
        known = [due for due in dues if not (self._queue and self._queue.is_in_doubt(due))]
        words = [(due.cid, self._rules.oldest_word(due, now)) for due in known]
        ages = {cid: age for cid, age in words if age is not None}
        try:
            unsent = {due.cid for due in dues if due.sent is None}
            seen = await self._backend.look([due.cid for due in dues], ages, unsent)
        except Exception as error:
            self._health.heard(error, wish=False)
            return error
        self._health.heard(None, wish=False)
        self._health.seen(seen.values())
        return seen

    async def _send(self, due: WorkItem, act: Action, seen: BackendStatus, leases: Leases) -> None:
        """Do *act* about *due* if that is still wanted, when its turn has come."""
        if act is Action.PIN and self._queue and not await self._queue.turn(due, seen):
            await self._settle([(due, self._rules.held_up(due))], leases)
            return
        async with self._turn:
            await self._sender.send(
                due, act, seen, lambda known, outcome: self._settle([(known, outcome)], leases)
            )

    async def _settle(self, outcomes: Sequence[tuple[WorkItem, Outcome]], leases: Leases) -> None:
        if not outcomes:
            return
        for due, outcome in outcomes:
            if self._queue is not None:
                self._queue.settled(due, outcome)
            leases.over(due)  # from here on it runs out by itself, should the ledger not take this
        try:
            await self._ledger.settle(self._owner, outcomes)
        finally:
            for due, _ in outcomes:
                self._under_way.pop(due.id, None)
        self._health.settled(outcome.sighting for _, outcome in outcomes)
        for due, outcome in outcomes:
            self._outcomes.heard(due.cid)
            if outcome.error is not None:
                log.warning("not pinned yet", cid=str(due.cid), reason=outcome.error)
            if outcome.again_in is not None and outcome.again_in < self._policy.idle:
                asyncio.get_running_loop().call_later(outcome.again_in + 0.01, self._awake.set)
        self._awake.set()
