"""The backlog of the reconciler, as operators see it. No I/O.

Knows the states of model/content_state.py; final pins are in no backlog (see `pins/`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState

# Promised, not pinned, and not failed.
PENDING: Final = (ContentState.QUEUED, ContentState.PINNING, ContentState.UNPINNED)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many contents want reconciling, now or later, by state.

    *leased*: being reconciled. *due*: waiting for a worker now, without those that were tried and
    failed since the time that was asked for."""

    by_state: Mapping[ContentState, int]
    leased: int
    due: int

    @property
    def pending(self) -> int:
        """How many are promised, not pinned, and not failed."""
        return sum(self.by_state.get(state, 0) for state in PENDING)

    @property
    def failed(self) -> int:
        """How many the backend could not pin when it was last asked."""
        return self.by_state.get(ContentState.FAILED, 0)

    @property
    def is_drained(self) -> bool:
        """Whether nothing is pending, leased or due."""
        return self.pending == self.leased == self.due == 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A content that is promised and not pinned, in *state* since *since*.

    *error* is why, None if nothing went wrong; *next_at* is None while it is being reconciled."""

    cid: Cid
    state: ContentState
    since: datetime
    attempts: int
    error: str | None
    next_at: datetime | None
