"""Sends one request to the backend: records it in the ledger, sends it, and reports the outcome.

Knows the ports of the ledger and the backend. Which request to send is decided by rules.py and
submission_window.py; when, and how the outcome is written, is left to the reconciler."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    Event,
    LastRequest,
    Outcome,
    TrackerStatus,
    WorkItem,
)
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.backend_health import HealthMonitor
from content_gateway.pins.rules import MAX_SEND_DELAY, Action, DecisionRules
from content_gateway.pins.work_queue import WorkQueue

_PROGRESS_INTERVAL: Final = 1.0

log = structlog.get_logger(__name__)


class Submitter:
    """Sends requests for contents leased by *owner*; *origins* has nodes that have them."""

    def __init__(
        self,
        ledger: WorkQueue,
        backend: PinBackend,
        owner: str,
        rules: DecisionRules,
        health: HealthMonitor,
        *,
        origins: Callable[[Cid], Awaitable[Sequence[Multiaddr]]],
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._backend = backend
        self._owner = owner
        self._rules = rules
        self._health = health
        self._origins = origins
        self._clock = clock

    async def send(
        self,
        item: WorkItem,
        action: Action,
        seen: BackendStatus,
        record_outcomes: Callable[[WorkItem, Outcome], Awaitable[None]],
    ) -> None:
        """Send the request *action* for *item*, whose status is *seen*. *record_outcomes* is called
        with the outcome in any case, also after an error."""
        last_request = LastRequest.PIN if action is Action.PIN else LastRequest.UNPIN
        is_lost = seen.status in (TrackerStatus.ABSENT, TrackerStatus.LOST) and not seen.replicas
        event = Event.SEEN_ABSENT if is_lost and action is Action.PIN else None
        shown = seen if seen.status is TrackerStatus.LOST else None
        outcome = Outcome(None, 0.0)  # if nothing is sent: due again at once
        begun, word = None, seen
        is_taken_up = seen.status in (
            TrackerStatus.FAILED,
            TrackerStatus.LOST,
            TrackerStatus.UNTRACKED,
        )
        if not is_taken_up or item.last_request is LastRequest.UNPIN:
            # Adapters continue an earlier pin that failed or lost replicas. After an unpin request
            # they must not: what is there is about to be removed.
            seen = BackendStatus(TrackerStatus.ABSENT)
        try:
            is_back = (
                action is Action.WITHDRAW
            )  # an unpin of promised content, which the ledger would refuse
            begun = await self._ledger.begin(
                self._owner, item, last_request, event, though_held=is_back
            )
            if begun is None or self._clock() - begun.requested_at > MAX_SEND_DELAY:
                # The lease is lost, or the write took so long that the batch age would begin too
                # early. Nothing is sent.
                pass
            else:
                request = self._pin(begun, seen) if action is Action.PIN else self._unpin(begun)
                outcome = await self._try(begun, request)
                if is_back:
                    outcome = self._rules.after_withdrawal(item, word)
                if outcome.status is None:
                    # Show that replicas are gone, even if the request failed.
                    outcome = replace(outcome, status=shown)
        finally:
            await record_outcomes(begun or item, outcome)

    async def _try(self, item: WorkItem, request: Awaitable[Outcome]) -> Outcome:
        """The outcome of *request*, within *item*'s attempt timeout; errors become outcomes."""
        try:
            async with asyncio.timeout(self._rules.backoffs.attempt_timeout(item)):
                outcome = await request
        except Exception as error:
            self._health.record_answer(error, is_write=True)
            return self._rules.after_error(item, error, attempted=True)
        self._health.record_answer(None, is_write=True)
        return outcome

    async def _pin(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        async with ProgressWriter(partial(self._ledger.progress, self._owner, item)) as progress:
            origins = await self._origins(item.cid)
            seen = await self._backend.pin(item.cid, seen, progress, origins)
            return self._rules.after_pin(item, seen)

    async def _unpin(self, item: WorkItem) -> Outcome:
        await self._backend.unpin(item.cid)
        return self._rules.after_unpin()


class ProgressWriter:
    """Passes the progress of one attempt to *store*, at most once a second.

    A backend reports with every block it has fetched. Only the latest report is stored."""

    def __init__(self, store: Callable[[int, int], Awaitable[None]]) -> None:
        self._store = store
        self._last: tuple[int, int] | None = None
        self._task: asyncio.Task[None]

    def __call__(self, blocks: int, size: int) -> None:
        """The attempt has fetched so many blocks and bytes so far."""
        self._last = (blocks, size)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write_repeatedly(), name="progress")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._write()

    async def _write_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_INTERVAL)
            await self._write()

    async def _write(self) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        try:
            await self._store(*last)
        except StorageUnavailable as wrong:
            log.warning("progress was not kept", reason=wrong.detail)
