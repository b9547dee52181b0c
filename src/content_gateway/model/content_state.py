"""The states of a content and the table of their transitions. No I/O.

The ledger and the reconciler ask `after`, and the diagram in docs/pins.md is drawn from the table,
so there is no other definition of states. Knows no requestor."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum, StrEnum, auto
from typing import Final

from content_gateway.model.cid import Cid


class ContentState(StrEnum):
    """How far the backend is with a promised content, or with unpinning it."""

    QUEUED = "queued"  # promised; the backend has not started
    PINNING = "pinning"  # the backend is fetching it
    PINNED = "pinned"  # the backend says that enough replicas exist
    FAILED = "failed"  # the backend cannot pin it; retried with backoff
    UNPINNED = "unpinned"  # was pinned, and the backend lost it: it is pinned again
    UNPINNING = "unpinning"  # released; to be unpinned after the grace period


# The states that a pin can be in: nobody holds a content that is unpinning.
PIN_STATES: Final = tuple(state for state in ContentState if state is not ContentState.UNPINNING)


class Event(StrEnum):
    """What can happen to a content."""

    PROMISED = "a requestor pins it"
    RELEASED = "its last requestor releases it"
    SEEN_ABSENT = "the backend does not have it"
    SEEN_QUEUED = "the backend has it in its queue"
    SEEN_PINNING = "the backend is bringing it in"
    SEEN_PINNED = "the backend holds it"
    SEEN_FAILED = "the backend cannot pin it"


_QUEUED, _PINNING, _PINNED = ContentState.QUEUED, ContentState.PINNING, ContentState.PINNED
_FAILED, _UNPINNED, _LEAVING = ContentState.FAILED, ContentState.UNPINNED, ContentState.UNPINNING

# None: the ledger has no row, before the first pin and after the unpin. An event that is not in the
# table does not change the state.
TRANSITIONS: Final[dict[tuple[ContentState | None, Event], ContentState | None]] = {
    (None, Event.PROMISED): _QUEUED,
    (_LEAVING, Event.PROMISED): _QUEUED,
    (_LEAVING, Event.SEEN_ABSENT): None,
    **{
        (state, Event.RELEASED): _LEAVING
        for state in (_QUEUED, _PINNING, _PINNED, _FAILED, _UNPINNED)
    },
    **{
        (state, event): seen
        for state in (_QUEUED, _PINNING, _PINNED, _FAILED, _UNPINNED)
        for event, seen in (
            (Event.SEEN_QUEUED, _QUEUED),
            (Event.SEEN_PINNING, _PINNING),
            (Event.SEEN_PINNED, _PINNED),
            (Event.SEEN_FAILED, _FAILED),
        )
        if state is not seen
    },
    (_PINNED, Event.SEEN_ABSENT): _UNPINNED,
    (_PINNING, Event.SEEN_ABSENT): _QUEUED,
    (_FAILED, Event.SEEN_ABSENT): _QUEUED,
}


def after(state: ContentState | None, event: Event) -> ContentState | None:
    """The state after *event*; None: its row is deleted."""
    return TRANSITIONS.get((state, event), state)


class TrackerStatus(Enum):
    """The status of one content, as a backend reports it (ipfs-cluster: TrackerStatus)."""

    ABSENT = auto()  # not in its pinset: stated, not inferred from silence
    UNTRACKED = auto()  # in its pinset, but an allocated node does not track it (yet)
    QUEUED = auto()  # in its pinset, not started
    PINNING = auto()
    PINNED = auto()  # with all the replicas it should have
    FAILED = auto()  # in its pinset, and every replica failed
    LOST = auto()  # in its pinset, but replicas are gone: to be pinned again
    UNKNOWN = auto()  # could not be found out


@dataclass(frozen=True, slots=True)
class Peer:
    """One node of a backend and its status of a content, in the backend's own terms.

    *at*: since when; None if the backend does not say."""

    name: str
    status: str
    at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """The result of a status check; *replicas* of *wanted* exist.

    *reason*: a sentence for people if something is wrong."""

    status: TrackerStatus
    replicas: int = 0
    wanted: int = 1
    peers: Sequence[Peer] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A content in a backend's pinset, with *replicas* of *wanted* by the backend's own lists."""

    cid: Cid
    replicas: int = 1
    wanted: int = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A content in the ledger: its *number*, *is_held* by somebody, *replicas* of *wanted*."""

    number: int
    is_held: bool
    replicas: int
    wanted: int


class LastRequest(StrEnum):
    """The last request to the backend."""

    PIN = "pin"
    UNPIN = "unpin"


SLOW_AFTER_ATTEMPTS: Final = 4
"""A content with more attempts is slow: each further attempt may take an hour."""


class Queue(IntEnum):
    """The queue in which a content waits; each has workers of its own."""

    FIRST_TRY = 0
    RETRY = 1
    SLOW = 2


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A leased content that wants reconciling.

    *is_held*: whether somebody held it when it was leased. *generation* changes with every first
    pin and last release; an outcome of an older one is dropped. *status_checks*: since the last
    event. *attempts*: since it was last pinned. *last_request* was sent at *requested_at* (seconds
    since 1970). *requestor*: the number of the one in whose line it waited. *is_shared*: others
    hold it too."""

    id: int
    cid: Cid
    state: ContentState
    generation: int
    is_held: bool
    attempts: int = 0
    status_checks: int = 0
    last_request: LastRequest | None = None
    requested_at: float = 0.0
    requestor: int = 0
    is_shared: bool = False

    @property
    def queue(self) -> Queue:
        """The queue in which it waited."""
        if self.attempts > SLOW_AFTER_ATTEMPTS:
            return Queue.SLOW
        return Queue.RETRY if self.attempts + self.status_checks else Queue.FIRST_TRY


@dataclass(frozen=True, slots=True)
class LeaseQuota:
    """How many contents may be leased: at most so many of each queue, and *most* in all.

    *releases*: released contents, of any queue. *held*: requestor and queue of each content in
    progress, so that nobody gets more than its share; None: all may go to one requestor."""

    most: int
    first_tries: int = 0
    retries: int = 0
    slow: int = 0
    releases: int = 0
    held: Sequence[tuple[int, Queue]] | None = None


def shared_by_all(number: int) -> int:
    """How many workers are needed so that one requestor alone gets *number* of them."""
    return number + max(1, number // 2)


def fair_share(free: int, held: int) -> int:
    """How many more of *free* workers a requestor gets that has *held* already: so many that half
    of what it then has stays free. The last free worker goes only to a requestor that has none.

    One requestor alone gets two thirds of all workers, the next one two thirds of the rest (dynamic
    thresholds, Choudhury and Hahne 1998). So a newcomer finds a free worker at once."""
    if free == 1:
        return 0 if held else 1
    return max(0, min((2 * free - held + 2) // 3, free - 1))


class RemainingQuota:
    """What is left of *quota* while contents are leased."""

    def __init__(self, quota: LeaseQuota) -> None:
        self.left = quota.most
        self._queues = {
            Queue.FIRST_TRY: quota.first_tries,
            Queue.RETRY: quota.retries,
            Queue.SLOW: quota.slow,
        }
        self._is_fair = quota.held is not None
        self._held = Counter(quota.held)
        self._held_in_all = Counter(requestor for requestor, _ in quota.held or ())

    def in_queue(self, queue: Queue) -> int:
        """How many contents of *queue* may still be leased."""
        return max(0, min(self.left, self._queues[queue]))

    def of(self, queue: Queue, requestor: int) -> int:
        """How many of these *requestor* may have."""
        free = self.in_queue(queue)
        if not self._is_fair:
            return free
        return min(
            fair_share(self.left, self._held_in_all[requestor]),
            fair_share(free, self._held[requestor, queue]),
        )

    def taken(self, queue: Queue, requestor: int) -> None:
        """Count one content of *queue* as leased for *requestor*."""
        self.left -= 1
        self._queues[queue] -= 1
        self._held[requestor, queue] += 1
        self._held_in_all[requestor] += 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of reconciling a content once.

    *event*: None if nothing was observed, for example in an outage. *again_in*: seconds until the
    next status check; None: nothing is left to do. *status*: stored for requestors to see.
    *attempted*: a request was sent. *is_untried*: the backend had not started the last request.
    *is_uncounted*: this status check does not make later backoffs longer."""

    event: Event | None
    again_in: float | None
    status: BackendStatus | None = None
    error: str | None = None
    attempted: bool = False
    is_untried: bool = False
    is_uncounted: bool = False


@dataclass(frozen=True, slots=True)
class ResyncReport:
    """The result of a resync. Times are seconds since 1970.

    *listed*: contents in the pinset. *missing*: final pins that are not in it, to be checked again.
    *unmanaged*: in it but not in the ledger; *sample* has the first of them. *under_replicated*:
    held contents in it with fewer replicas than they should have, to be checked again."""

    started_at: float
    ended_at: float
    listed: int
    missing: int
    unmanaged: int
    sample: tuple[Cid, ...] = ()
    under_replicated: int = 0
