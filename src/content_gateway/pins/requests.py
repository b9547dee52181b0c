"""What a backend is asked for about one content: recorded before, and what came of it told after.

Knows the ports of ledger and backend. What is to be asked for is decided by rules.py and
submission_window.py; whose turn it is, and what becomes of the outcome, is the reconciler's
business."""

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
    """Asks *backend* for what *owner* has leased; *origins* says who has a content."""

    def __init__(
        self,
        ledger: WorkQueue,
        backend: PinBackend,
        owner: str,
        rules: DecisionRules,
        health: HealthMonitor,
        *,
        origins: Callable[[Cid], Sequence[Multiaddr]],
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
        """Do *action* about *item*, of which *seen* was seen; *record_outcomes* is told what it has
        come to, however it ends."""
        last_request = LastRequest.PIN if action is Action.PIN else LastRequest.UNPIN
        is_lost = seen.status in (TrackerStatus.ABSENT, TrackerStatus.LOST) and not seen.replicas
        event = Event.SEEN_ABSENT if is_lost and action is Action.PIN else None
        shown = seen if seen.status is TrackerStatus.LOST else None
        outcome = Outcome(None, 0.0)  # where it is not ours any more: the ledger makes it due again
        begun, word = None, seen
        is_taken_up = seen.status in (
            TrackerStatus.FAILED,
            TrackerStatus.LOST,
            TrackerStatus.UNTRACKED,
        )
        if not is_taken_up or item.last_request is LastRequest.UNPIN:
            # What it has may be about to go, so that nothing of it can be taken up again.
            seen = BackendStatus(TrackerStatus.ABSENT)
        try:
            is_back = action is Action.WITHDRAW  # no promise ends with that: it is sent again
            begun = await self._ledger.begin(
                self._owner, item, last_request, event, though_held=is_back
            )
            if begun is None or self._clock() - begun.requested_at > MAX_SEND_DELAY:
                pass  # held up so long, somebody else may be at it
            else:
                is_write = self._pin(begun, seen) if action is Action.PIN else self._unpin(begun)
                outcome = await self._try(begun, is_write)
                if is_back:
                    outcome = self._rules.after_withdrawal(item, word)
                if outcome.status is None:
                    # However it went: that replicas are gone is to be known.
                    outcome = replace(outcome, status=shown)
        finally:
            await record_outcomes(begun or item, outcome)

    async def _try(self, item: WorkItem, is_write: Awaitable[Outcome]) -> Outcome:
        """What *is_write* has come to, in the time that a try about *item* has."""
        try:
            async with asyncio.timeout(self._rules.backoffs.attempt_timeout(item)):
                outcome = await is_write
        except Exception as error:
            self._health.record_answer(error, is_write=True)
            return self._rules.after_error(item, error, attempted=True)
        self._health.record_answer(None, is_write=True)
        return outcome

    async def _pin(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        async with ProgressWriter(partial(self._ledger.progress, self._owner, item)) as progress:
            origins = self._origins(item.cid)
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
