"""How the pin backend is, as the one who last talked to it has left word: values without I/O.

Knows what follows for a pin that waits while the backend is unreachable, and the words for it,
which name no host: requestors hear the kind, the operator the reason. Who talks to the backend is
left to `pins/`, and where the word is kept to `ledger/`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.model.backlog import PENDING, Waiting
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import PinStatus

_WAITING: Final = frozenset({*PENDING, ContentState.FAILED})
# Whoever has left word of an outage tries every few seconds; from one that is silent for so long
# nothing follows any more.
_BELIEVED_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the backend: whether it took part in an answer *at* that moment."""

    name: str
    answers: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class BackendHealth:
    """What is known of the backend at *kept_at*.

    It is unreachable *since* then (None: it answers), and is tried again at *next_at*;
    *is_rejecting_writes* says that it tells what it holds and takes no pins, and *is_ours* that the
    fault is our own. *reason* is for operators alone, as it may name hosts. *pinned* contents
    became so within the last *seconds*."""

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
        """Whether there is an outage at *now*, for all that is known."""
        if self.since is None:
            return False
        return abs(now - (self.next_at or self.kept_at)) < _BELIEVED_FOR

    def describe(self) -> str:
        """Why a pin waits, for requestors; only where there is an outage."""
        what = "The pin backend " + (
            "takes no pins" if self.is_rejecting_writes else "cannot be reached"
        )
        if self.is_ours:
            what = "This service cannot keep content"
        since = "" if self.since is None else f" since {rfc3339(self.since)}"
        again = "" if self.next_at is None else f"; the next try is at {rfc3339(self.next_at)}"
        return f"{what}{since}{again}. The pin is kept."

    def explain_pin(self, status: PinStatus) -> PinStatus:
        """*status* in an outage: what waits waits for the backend, at the earliest until that is
        tried again, whatever was said of the content before."""
        if status.state not in _WAITING:
            return status
        error, next_at = self._why(status.state, status.error, status.next_at)
        return replace(status, error=error, next_at=next_at)

    def explain_content(self, waiting: Waiting) -> Waiting:
        """The same of a content that waits."""
        error, next_at = self._why(waiting.state, waiting.error, waiting.next_at)
        return replace(waiting, error=error, next_at=next_at)

    def _why(
        self, state: ContentState, error: str | None, next_at: datetime | None
    ) -> tuple[str, datetime | None]:
        moments = [moment for moment in (next_at, self.next_at) if moment is not None]
        verdict = error if state is ContentState.FAILED else None
        return verdict or self.describe(), max(moments, default=None)
