"""Polls the queue of a backend that accepts every request, and makes requests wait for room.

Polls only while more than one requestor is active and something of ours may be in the queue. The
limits that follow are in submission_window.py. If the backend does not answer in time nothing is
limited, so that an outage does not look like a full queue."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from content_gateway.errors import UpstreamError
from content_gateway.model.content_state import BackendStatus, Event, LastRequest, Outcome, WorkItem
from content_gateway.pins.rules import Action, DecisionRules
from content_gateway.pins.submission_window import SubmissionWindows, is_retry

log = structlog.get_logger(__name__)

_TIMEOUT: Final = 2.0
_MIN_PAUSE: Final = 0.5
_REST_FACTOR: Final = (
    20  # the pause is so many times as long as the last answer took: at most 5 % load
)
_MAX_PAUSE: Final = 10.0


class BackendQueue(Protocol):
    """A backend's own queue of requests: a port."""

    @property
    def workers(self) -> int:
        """How many contents it pins at a time."""

    async def in_progress(self) -> Mapping[str, bool]:
        """The CIDs, in the backend's spelling, that are queued or being pinned at any node, whoever
        sent them; True where that holds for most of the nodes that are to hold it.

        Raises UpstreamError."""


class QueueWatch:
    """Polls one *queue* and keeps its *windows* up to date."""

    def __init__(
        self,
        queue: BackendQueue,
        rules: DecisionRules,
        *,
        waiting_requestors: Callable[[int], Awaitable[Sequence[int]]],
        clock: Callable[[], float],
    ) -> None:
        """*waiting_requestors(limit)*: those with due contents, whichever process took their
        pins."""
        self.windows = SubmissionWindows(queue.workers, rules, clock)
        self._queue = queue
        self._waiting_requestors = waiting_requestors
        self._clock = clock
        self._longest_turn = rules.backoffs.longest_queue_wait
        self._not_before = -math.inf
        self._changed = asyncio.Event()

    async def check(self, again: Callable[[], None]) -> Sequence[int]:
        """Poll the queue if it is time; *again* is called when the next poll is due.

        Returns the contents that block others, to be checked soon. Raises StorageUnavailable."""
        began = self._clock()
        # A clock that was set back must not make the pause longer.
        if 0 < self._not_before - began <= _MAX_PAUSE:
            return []
        self._not_before = began + _MIN_PAUSE
        if not self.windows.is_shared:
            for requestor in await self._waiting_requestors(2):
                self.windows.record_arrival(requestor)
        if not self.windows.is_shared or self.windows.is_empty:
            return []
        in_progress = await self._in_progress()
        slow = self.windows.record_answer(in_progress)
        self._change()
        now = self._clock()
        pause = min(_MAX_PAUSE, max(_MIN_PAUSE, _REST_FACTOR * (now - began)))
        self._not_before = now + pause
        asyncio.get_running_loop().call_later(pause + 0.01, again)
        return slow

    async def _in_progress(self) -> Mapping[str, bool] | None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await self._queue.in_progress()
        except (UpstreamError, TimeoutError) as wrong:
            log.info("what the backend has in hand is not known", reason=repr(wrong))
            return None

    async def wait_for_room(self, item: WorkItem, seen: BackendStatus) -> bool:
        """Wait until there is room for *item* (*seen* is its status); False for none in time."""
        if is_retry(item, seen):
            return True  # `adjust` has taken a place for it already
        self.windows.record_arrival(item.requestor)
        end = asyncio.get_running_loop().time() + self._longest_turn
        while not self.windows.may_send(item.requestor):
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                return False
        self.windows.reserve(item)
        return True

    def adjust(
        self, item: WorkItem, seen: BackendStatus, action: Action | Outcome
    ) -> Action | Outcome:
        """As SubmissionWindows.adjust."""
        adjusted = self.windows.adjust(item, seen, action)
        if adjusted is Action.WITHDRAW:
            self._change()
        return adjusted

    def record_outcome(self, item: WorkItem, outcome: Outcome) -> None:
        """Update the window of *item*'s requestor after *outcome*."""
        if outcome.event in (Event.SEEN_PINNED, Event.SEEN_ABSENT):
            self.windows.remove(item, is_pinned=outcome.event is Event.SEEN_PINNED)
        elif outcome.attempted and item.last_request is LastRequest.PIN:
            self.windows.record_sent(item)
        else:
            self.windows.record_not_sent(item)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
