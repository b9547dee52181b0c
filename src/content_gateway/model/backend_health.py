"""The health of the pin backend, as the process that uses it last stored it. No I/O.

Knows what an outage means for a pin that waits, and the sentence for its requestor, which names no
host; only operators see the reason. Using the backend is left to `pins/`, storing to `ledger/`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.model.backlog import PENDING, Waiting
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import PinStatus

_WAITING: Final = frozenset({*PENDING, ContentState.FAILED})
# In an outage the reconciler probes, and stores the health, every few seconds. A stored outage that
# is older than this means that no process is running: it proves nothing.
_BELIEVED_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the backend, and whether it answered at the time *at*."""

    name: str
    answers: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class BackendHealth:
    """The backend's health at *kept_at*.

    *since*: start of the outage, None if it answers. *next_at*: the next probe.
    *is_rejecting_writes*: it answers status checks only. *is_ours*: the cause is on our side, such
    as a full disk. *reason*: for operators only, as it may name hosts. *pinned*: contents that
    became pinned in the last *seconds*."""

    kept_at: datetime
    answered_at: datetime | None = None
    since: datetime | None = None
    next_at: datetime | None = None
    is_rejecting_writes: bool = False
    is_ours: bool = False
    reason: str | None = None
    pinned: int = 0
    seconds: float = 0.0
    nodes: Sequence[Node] = ()

    def is_unavailable(self, now: datetime) -> bool:
        """Whether there is an outage at *now*: an old entry says nothing."""
        if self.since is None:
            return False
        return abs(now - (self.next_at or self.kept_at)) < _BELIEVED_FOR

    def describe(self) -> str:
        """The sentence for requestors that says why a pin waits; for an outage only."""
        what = "The pin backend " + (
            "takes no pins" if self.is_rejecting_writes else "cannot be reached"
        )
        if self.is_ours:
            what = "This service cannot keep content"
        since = "" if self.since is None else f" since {rfc3339(self.since)}"
        again = "" if self.next_at is None else f"; the next try is at {rfc3339(self.next_at)}"
        return f"{what}{since}{again}. The pin is kept."

    def explain_pin(self, status: PinStatus) -> PinStatus:
        """*status* as shown in an outage: a pin that waits has the outage as its error, and is
        retried after the next probe at the earliest."""
        if status.state not in _WAITING:
            return status
        error, next_at = self._why(status.state, status.error, status.next_at)
        return replace(status, error=error, next_at=next_at)

    def explain_content(self, waiting: Waiting) -> Waiting:
        """As `explain_pin`, for a content."""
        error, next_at = self._why(waiting.state, waiting.error, waiting.next_at)
        return replace(waiting, error=error, next_at=next_at)

    def _why(
        self, state: ContentState, error: str | None, next_at: datetime | None
    ) -> tuple[str, datetime | None]:
        times = [each for each in (next_at, self.next_at) if each is not None]
        verdict = error if state is ContentState.FAILED else None
        return verdict or self.describe(), max(times, default=None)
