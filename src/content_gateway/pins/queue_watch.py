"""The queue of a backend that takes whatever it is sent, watched: what it has in hand is asked now
and then, while something of ours may be in it and more than one requestor is there.

What follows from that for each requestor is said by submission_window.py. Where the backend does
not say it in time, nothing is limited: an outage is not to look like a full queue."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from content_gateway.errors import UpstreamError
from content_gateway.model.content_state import BackendStatus, Event, LastRequest, Outcome, WorkItem
from content_gateway.pins.rules import Action, DecisionRules
from content_gateway.pins.submission_window import SubmissionWindows, is_retry

log = structlog.get_logger(__name__)

_TIMEOUT: Final = 2.0
_MIN_PAUSE: Final = 0.5
_REST_FACTOR: Final = 20  # it is asked again after so many times what the last answer took
_MAX_PAUSE: Final = 10.0


class BackendQueue(Protocol):
    """Where a backend keeps what it was sent until it is done with it: a port."""

    @property
    def workers(self) -> int:
        """How many contents it is at, at a time."""

    async def in_progress(self) -> Mapping[str, bool]:
        """The CIDs, as it spells them, that some of its nodes have queued or are at, whoever sent
        them, and whether most of those that are to keep it have.

        Raises UpstreamError."""


class QueueWatch:
    """What is known of one *queue*; *windows* follows from it."""

    def __init__(
        self,
        queue: BackendQueue,
        rules: DecisionRules,
        *,
        waiting_requestors: Callable[[int], Sequence[int]],
        clock: Callable[[], float],
    ) -> None:
        """*waiting_requestors(limit)* gives requestors that have due contents in the ledger,
        whichever process accepted their pins."""
        self.windows = SubmissionWindows(queue.workers, rules, clock)
        self._queue = queue
        self._waiting_requestors = waiting_requestors
        self._clock = clock
        self._longest_turn = rules.backoffs.longest_queue_wait
        self._not_before = -math.inf
        self._changed = asyncio.Event()

    async def check(self, again: Callable[[], None]) -> Sequence[int]:
        """Ask what is in hand if it is time; *again* is called when it will be time next.

        The numbers of contents that are in the way of others, and are to be checked soon. Raises
        StorageUnavailable."""
        began = self._clock()
        # A clock that was set back must not make the pause longer.
        if 0 < self._not_before - began <= _MAX_PAUSE:
            return []
        self._not_before = began + _MIN_PAUSE
        if not self.windows.is_shared:
            for requestor in self._waiting_requestors(2):
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
        """Wait until *item*, of which *seen* was seen, may be sent where that is no retry; False:
        it may not for now."""
        if is_retry(item, seen):
            return True  # it was asked for when that was decided
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

    def needs_fresh_status(self, item: WorkItem) -> bool:
        """As SubmissionWindows.needs_fresh_status."""
        return self.windows.needs_fresh_status(item)

    def adjust(
        self, item: WorkItem, seen: BackendStatus, action: Action | Outcome
    ) -> Action | Outcome:
        """As SubmissionWindows.adjust."""
        adjusted = self.windows.adjust(item, seen, action)
        if adjusted is Action.WITHDRAW:
            self._change()
        return adjusted

    def record_outcome(self, item: WorkItem, outcome: Outcome) -> None:
        """What has come of *item*."""
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
