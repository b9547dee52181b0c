"""The reconciler: makes the backend hold what the ledger has promised.

Theory of operation. The ledger says which contents are *due*: promised, and not known to be
pinned. The reconciler leases a few of them at a time, under its own name and for thirty
seconds, which it extends while it works; the ledger refuses an outcome from anybody whose lease
has passed on, so that one worker at a time tends a content, across tasks, processes and
machines. A worker that dies simply lets its lease run out.

Tending a content is always the same two steps. *Look*: ask the backend what it holds, and
believe only that. Pinned: settled, nothing is sent. On its way: look again later, after a
growing gap. Otherwise *submit*: ask the backend to pin it, and look again soon. Looking first
makes every crash harmless: what was sent but not recorded is seen, what was recorded but not
sent is sent, and what the backend holds already is never sent again.

An unreachable backend is no verdict on the content: it stays queued and is retried within
seconds of the backend's return. A backend that says it cannot pin the content (PinFailed)
makes it *failed*, with the reason; it is retried too, with longer gaps, and never given up.

A content that takes for ever must not stop the others. A first try gets a *slice* of thirty
seconds, each later one twice as long; what a backend has fetched by then it need not fetch
again. And half of the workers are kept for contents that were never tried."""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.pins import ContentState, Due, Holding, Outcome
from content_gateway.errors import PinFailed, StorageUnavailable, UpstreamError

log = structlog.get_logger(__name__)


class PinBackend(Protocol):
    """Where content is really kept."""

    async def look(self, cid: Cid) -> Holding:
        """What the backend holds of *cid*, from its own positive word.

        Raises PinFailed when it has tried and failed, UpstreamError when it cannot be asked."""

    async def submit(self, cid: Cid) -> None:
        """Ask the backend to pin *cid*; when this returns, the next look may be believed.

        May take as long as the retrieval. Raises as look does."""


class DueLedger(Protocol):
    """The part of the ledger that knows what is owed."""

    def any_due(self) -> bool:
        """Whether a content waits to be tended now."""

    async def lease(
        self, owner: str, seconds: float, first_tries: int, retries: int
    ) -> Sequence[Due]:
        """Due contents, for *owner* alone until *seconds* have passed.

        At most so many that were never tried, and so many that were."""

    async def renew(self, owner: str, cid: Cid, seconds: float) -> None:
        """Extend *owner*'s lease, if it still holds it."""

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases."""

    async def settle(self, owner: str, due: Due, outcome: Outcome) -> None:
        """Write *outcome* and end the lease; nothing happens if *owner* has lost it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds and numbers of the reconciler's work."""

    workers: int = 16
    lease: float = 30.0
    idle: float = 1.0
    first_slice: float = 30.0
    longest_slice: float = 3600.0
    first_gap: float = 0.5
    longest_gap: float = 15.0
    longest_gap_failed: float = 600.0


class Reconciler:
    """Owns the tasks that tend contents; runs between `start` and `close`."""

    def __init__(
        self,
        ledger: DueLedger,
        backend: PinBackend,
        *,
        policy: Policy | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._ledger = ledger
        self._backend = backend
        self._policy = policy or Policy()
        self._jitter = jitter
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._awake = asyncio.Event()
        self._workers: dict[asyncio.Task[None], Due] = {}
        self._main: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Say that something may be due."""
        self._awake.set()

    def start(self) -> None:
        """Begin to tend contents, in a task of the reconciler's own."""
        self._main = asyncio.create_task(self._run(), name="reconciler")

    async def close(self) -> None:
        """End all work; what was under way is due again at once, for whoever comes next."""
        tasks = [*self._workers, *([self._main] if self._main else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._main is None:
            return
        try:
            await self._ledger.release(self._owner)
        except StorageUnavailable as wrong:
            log.warning("leases were not released, they will run out", reason=wrong.detail)

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

    async def _hand_out(self) -> None:
        free = self._policy.workers - len(self._workers)
        if free <= 0 or not self._ledger.any_due():
            return
        retrying = sum(due.attempts > 0 for due in self._workers.values())
        retries = max(0, min(free, self._policy.workers // 2 - retrying))
        first_tries = free - retries
        for due in await self._ledger.lease(self._owner, self._policy.lease, first_tries, retries):
            worker = asyncio.create_task(self._work(due), name=f"tend {due.cid}")
            self._workers[worker] = due
            worker.add_done_callback(self._worked)

    def _worked(self, worker: asyncio.Task[None]) -> None:
        del self._workers[worker]
        self._awake.set()
        if not worker.cancelled() and (error := worker.exception()):
            log.error("a content could not be tended", reason=repr(error))

    async def _work(self, due: Due) -> None:
        renewing = asyncio.create_task(self._keep_lease(due.cid))
        try:
            outcome = await self._tend(due)
        finally:
            renewing.cancel()
        await self._ledger.settle(self._owner, due, outcome)

    async def _keep_lease(self, cid: Cid) -> None:
        while True:
            await asyncio.sleep(self._policy.lease / 3)
            try:
                await self._ledger.renew(self._owner, cid, self._policy.lease)
            except StorageUnavailable as wrong:
                log.error("a lease could not be renewed", cid=str(cid), reason=wrong.detail)

    async def _tend(self, due: Due) -> Outcome:
        """Look, submit where that is needed, and say what that has shown."""
        try:
            async with asyncio.timeout(self._slice(due.attempts)):
                holding = await self._look(due.cid)
                if holding is Holding.ABSENT:
                    await self._backend.submit(due.cid)
                    holding = await self._backend.look(due.cid)
        except PinFailed as failed:
            log.warning("pin failed", cid=str(due.cid), reason=failed.detail)
            gap = self._gap(due.attempts, self._policy.longest_gap_failed)
            return Outcome(ContentState.FAILED, gap, failed.detail)
        except UpstreamError as away:
            log.warning("pin backend unavailable", cid=str(due.cid), reason=away.detail)
            gap = self._gap(due.attempts, self._policy.longest_gap)
            return Outcome(ContentState.QUEUED, gap, away.detail)
        except TimeoutError:
            gap = self._gap(due.attempts, self._policy.longest_gap)
            return Outcome(ContentState.PINNING, gap, "It takes long; the next try has more time.")
        except Exception as bug:
            log.error("a content could not be tended", cid=str(due.cid), exc_info=bug)
            gap = self._gap(due.attempts, self._policy.longest_gap_failed)
            return Outcome(ContentState.QUEUED, gap, "Something went wrong on our side.")
        if holding is Holding.PINNED:
            return Outcome(ContentState.PINNED, None)
        return Outcome(ContentState.PINNING, self._gap(due.attempts, self._policy.longest_gap))

    async def _look(self, cid: Cid) -> Holding:
        """As the backend's look; a content that failed there is asked for once more."""
        try:
            return await self._backend.look(cid)
        except PinFailed:
            await self._backend.submit(cid)
            raise

    def _slice(self, attempts: int) -> float:
        return min(self._policy.longest_slice, self._policy.first_slice * 2.0 ** min(attempts, 20))

    def _gap(self, attempts: int, longest: float) -> float:
        """A gap that doubles with every attempt, with jitter so that many do not march in step."""
        gap = min(longest, self._policy.first_gap * 2.0 ** min(attempts, 20))
        return gap * (0.5 + self._jitter() / 2)
