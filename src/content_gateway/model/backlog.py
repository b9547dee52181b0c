"""What is still to be done about contents, as operators see it: values without I/O.

Knows the states of model/content_state.py; a content that is pinned for good is in no backlog. Who
works it off is left to `pins/`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState

# Promised, not there yet, and nobody has said that it cannot be.
PENDING: Final = (ContentState.QUEUED, ContentState.PINNING, ContentState.UNPINNED)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many contents want reconciling, now or later, by their state.

    *leased* are being reconciled; *due* wait for somebody who does it now, without those that have
    failed since the moment the backlog was asked for."""

    by_state: Mapping[ContentState, int]
    leased: int
    due: int

    @property
    def pending(self) -> int:
        """How many are on their way."""
        return sum(self.by_state.get(state, 0) for state in PENDING)

    @property
    def failed(self) -> int:
        """How many the backend could not pin when it was last asked."""
        return self.by_state.get(ContentState.FAILED, 0)

    @property
    def is_drained(self) -> bool:
        """Whether nothing is on its way and everything that failed was tried again."""
        return self.pending == self.leased == self.due == 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A content that is promised and not pinned, and has been in *state* *since* then.

    *error* is why, None if nothing went wrong; *next_at* is None while it is being reconciled."""

    cid: Cid
    state: ContentState
    since: datetime
    attempts: int
    error: str | None
    next_at: datetime | None
