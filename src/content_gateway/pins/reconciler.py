"""The reconciler: makes the backend hold what the ledger has promised, and nothing it has not.

Theory of operation. The ledger says which contents are *due*: promised and not known to be
pinned, or let go of by their last requestor. The reconciler leases some of them at a time, under
its own name and for thirty seconds, which it extends while it works; the ledger takes an outcome
only from whoever holds the lease, so that one worker at a time tends a content, across tasks,
processes and machines, and a pin and an unpin of one CID never overlap. A worker that dies lets
its lease run out, and another one goes on.

Requestors do not wait for leases. Every first promise and every last release of a content gives
it a new *generation*. What was learned under an older one is thrown away, and the content is due
again at once: a pin that is added while its content is on the way out is never mistaken for the
pin that went.

Tending is always the same. *Look*: ask the backend what it holds, many contents in one call, and
believe only its positive word. Then either take note, or *send* a wish, never both blindly: what
the backend holds already is not sent again, and what is on its way is only looked at, with
growing gaps. Looking first makes every crash harmless: what was sent but not recorded is seen,
what was recorded but not sent is sent.

A cluster that batches its changes says yes before it knows them, and a look does not see them
yet. So the ledger records, durably and before it is sent, *what* was last wished and *when*; until
that wish is older than the backend's batch age, an absence is no reason to send it again, and a
presence after an unpin is no proof of a pin. A pin counts as settled when it was seen once more
after that age. The rules are in tending.py, the states in content/holdings.py.

What nobody holds stays for a grace period, in case it is pinned again. Whether anybody holds it
is counted again under the lease, in the transaction that records the wish to let go; the row is
forgotten only when the backend says that the content is gone.

An unreachable backend is no verdict on a content: nothing changes but the reason that is shown,
and the reconciler stops leasing and probes with one content at a time until it is answered (where
only pins are not taken, what nobody holds still goes); then
a sweep is asked for, since a backend that comes back may have forgotten what it had confirmed. A
backend that cannot pin a content makes it *failed*, with the reason; it is tried again with
longer gaps, and never given up.

A content that takes for ever must not stop the others. A first try gets a *slice* of thirty
seconds, each later one twice as long; what a backend has fetched by then it need not fetch
again. And half of the workers are kept for contents that were never tried."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.holdings import Due, Event, Holding, Outcome, Sent, Sighting
from content_gateway.errors import StorageUnavailable, UpstreamError
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.outcomes import Outcomes
from content_gateway.pins.progress import Progress
from content_gateway.pins.tending import OUTAGE, Act, Policy, Rules

log = structlog.get_logger(__name__)


class DueLedger(Protocol):
    """The part of the ledger that knows what is owed. Methods raise StorageUnavailable."""

    def any_due(self) -> bool:
        """Whether a content waits to be tended now."""

    async def lease(
        self, owner: str, seconds: float, first_tries: int, retries: int, releases: int = 0
    ) -> Sequence[Due]:
        """Due contents, for *owner* alone until *seconds* have passed.

        At most so many that were never tended, that were, and that nobody holds any more."""

    async def renew(self, owner: str, dues: Sequence[Due], seconds: float) -> None:
        """Extend *owner*'s leases, as far as it still holds them."""

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases."""

    async def begin(self, owner: str, due: Due, sent: Sent, event: Event | None) -> Due | None:
        """Record *event*, and that *sent* is about to be asked of the backend, durably; the
        content as it is then.

        None, and nothing may be sent, if lease or generation have passed on, or if an unpin is
        meant and somebody holds the content."""

    async def progress(self, owner: str, due: Due, blocks: int, size: int) -> None:
        """Keep that the content is being brought in, and how far that is."""

    async def settle(self, owner: str, outcomes: Sequence[tuple[Due, Outcome]]) -> None:
        """Write outcomes and end their leases; nothing is written where *owner* has lost one."""


class Reconciler:
    """Owns the tasks that tend contents; runs between `start` and `close`."""

    def __init__(
        self,
        ledger: DueLedger,
        backend: PinBackend,
        *,
        policy: Policy | None = None,
        returned: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*returned* is called when a backend that was away answers again."""
        self.outcomes = Outcomes()
        self._ledger = ledger
        self._backend = backend
        self._policy = policy or Policy()
        self._rules = Rules(self._policy, backend.batch_age)
        self._returned = returned
        self._clock = clock
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._awake = asyncio.Event()
        self._under_way: dict[int, Due] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._outages = 0  # probes without an answer, one after the other
        self._is_deaf = False  # it answers looks, and takes no wishes
        self._away_until = 0.0

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
                await self._hand_out()
            except StorageUnavailable as wrong:
                log.error("reconciler cannot read the ledger", reason=wrong.detail)
            except Exception as bug:
                log.error("reconciler stumbled, and goes on", exc_info=bug)
            # Another process may have promised something, so look once in a while. Not with
            # wait_for: before Python 3.12 it can swallow the cancellation that ends this task.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.idle):
                    await self._awake.wait()

    async def _hand_out(self) -> int:
        """Lease what is due and free workers may take, and begin to tend it."""
        free = self._policy.workers - len(self._under_way)
        is_away = self._clock() < self._away_until
        if free <= 0 or (is_away and not self._is_deaf) or not self._ledger.any_due():
            return 0
        first_tries, retries, releases = self._shares(free)
        if self._outages:
            # What can be let go of need not wait until something can be taken in.
            first_tries, retries = (0, 0) if is_away else (1 - min(1, retries), min(1, retries))
            releases = free - 1 if self._is_deaf else 0
        dues = await self._ledger.lease(
            self._owner, self._policy.lease, first_tries, retries, releases
        )
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

    def _shares(self, free: int) -> tuple[int, int, int]:
        """How many of *free* workers are for first tries, for retries, and for releases alone."""
        retrying = sum(due.attempts + due.looks > 0 for due in self._under_way.values())
        retries = max(0, min(free, self._policy.workers // 2 - retrying))
        return free - retries, retries, 0

    def _tended(self, batch: asyncio.Task[None]) -> None:
        self._batches.discard(batch)
        self._awake.set()
        if not batch.cancelled() and (error := batch.exception()):
            log.error("contents could not be tended", reason=repr(error))

    async def _tend(self, dues: Sequence[Due]) -> None:
        """Look at *dues* together, take note of some, and send for the others, each by itself."""
        mine = {due.id: due for due in dues}
        renewing = asyncio.create_task(self._keep_leases(mine))
        try:
            settled, wishes = [], []
            seen = await self._look([due.cid for due in dues])
            for due in dues:
                act = (
                    self._rules.broke(due, seen, attempted=False)
                    if isinstance(seen, Exception)
                    else self._rules.decide(due, seen[due.cid], self._clock())
                )
                if isinstance(act, Outcome):
                    settled.append((due, act))
                elif not isinstance(seen, Exception):
                    wishes.append(self._send(due, act, seen[due.cid], mine))
            # All of them go on to their own end: what the ledger did not take, a lease will mend.
            work = [self._settle(settled, mine), *wishes]
            for error in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(error, BaseException):
                    log.error("an outcome was not kept", reason=repr(error))
        finally:
            renewing.cancel()
            for number in mine:
                self._under_way.pop(number, None)

    async def _look(self, cids: Sequence[Cid]) -> Mapping[Cid, Sighting] | Exception:
        """What the backend holds, or why it could not be seen."""
        try:
            seen = await self._backend.look(cids)
        except Exception as error:
            self._heard(error, sending=False)
            return error
        self._heard(None, sending=False)
        return seen

    async def _send(self, due: Due, act: Act, seen: Sighting, mine: dict[int, Due]) -> None:
        """Do *act* about *due* if that is still wanted, and write what it has come to."""
        sent = Sent.PIN if act is Act.PIN else Sent.UNPIN
        is_lost = act is Act.PIN and seen.holding is Holding.ABSENT
        event = Event.SEEN_ABSENT if is_lost else None
        begun = await self._ledger.begin(self._owner, due, sent, event)
        if begun is None or self._clock() - begun.sent_at > self._policy.lease / 2:
            # Not ours any more, or we were held up so long that somebody else may be at it.
            outcome = Outcome(None, 0.0)
        elif act is Act.PIN:
            outcome = await self._pin(begun, seen)
        else:
            outcome = await self._unpin(begun)
        await self._settle([(begun or due, outcome)], mine)

    async def _pin(self, due: Due, seen: Sighting) -> Outcome:
        progress = Progress(partial(self._ledger.progress, self._owner, due))
        if seen.holding is Holding.PINNED:
            seen = Sighting(Holding.ABSENT)  # it is about to go: the wish is sent all the same
        try:
            async with asyncio.timeout(self._rules.slice(due)), progress:
                outcome = self._rules.pinned(due, await self._backend.pin(due.cid, seen, progress))
        except Exception as error:
            self._heard(error, sending=True)
            return self._rules.broke(due, error, attempted=True)
        self._heard(None, sending=True)
        return outcome

    async def _unpin(self, due: Due) -> Outcome:
        try:
            async with asyncio.timeout(self._rules.slice(due)):
                await self._backend.unpin(due.cid)
        except Exception as error:
            self._heard(error, sending=True)
            return self._rules.broke(due, error, attempted=True)
        self._heard(None, sending=True)
        return self._rules.unpinned()

    async def _settle(self, outcomes: Sequence[tuple[Due, Outcome]], mine: dict[int, Due]) -> None:
        if not outcomes:
            return
        await self._ledger.settle(self._owner, outcomes)
        for due, outcome in outcomes:
            self._under_way.pop(due.id, None)
            mine.pop(due.id, None)
            self.outcomes.heard(due.cid)
            if outcome.error is not None:
                log.warning("not pinned yet", cid=str(due.cid), reason=outcome.error)
        self._awake.set()

    async def _keep_leases(self, mine: Mapping[int, Due]) -> None:
        while True:
            await asyncio.sleep(self._policy.lease / 3)
            try:
                await self._ledger.renew(self._owner, list(mine.values()), self._policy.lease)
            except StorageUnavailable as wrong:
                log.error("leases could not be renewed", reason=wrong.detail)

    def _heard(self, error: Exception | None, *, sending: bool) -> None:
        """Take note that the backend answered, or that it is away.

        Where only what is sent to it failed, an answered look does not mean that it is back."""
        now = self._clock()
        if isinstance(error, OUTAGE):
            if now >= self._away_until:
                self._away_until = now + self._rules.gap_away(self._outages)
                self._outages += 1
                self._is_deaf = sending
                log.warning("pin backend is away", reason=error.detail)
        elif (
            self._outages and (sending or not self._is_deaf) and not isinstance(error, TimeoutError)
        ):
            self._outages, self._away_until = 0, 0.0
            log.info("pin backend is back")
            self._returned()
            self._awake.set()
        if error is not None and not isinstance(error, UpstreamError | TimeoutError):
            log.error("the pin backend's adapter stumbled", exc_info=error)
