"""What becomes of a content: how far a backend is with it, and the table of its states.

The table is the whole truth about states: the ledger and the reconciler ask `after`, and the
diagram in docs/pins.md is drawn from it. Does no I/O and knows no requestor."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum, StrEnum, auto
from typing import Final

from content_gateway.model.cid import Cid


class ContentState(StrEnum):
    """How far the backend is with a content; the promise itself is made when it is queued."""

    QUEUED = "queued"  # promised; the backend has not begun
    PINNING = "pinning"  # the backend is bringing it in
    PINNED = "pinned"  # the backend itself says that enough replicas are there
    FAILED = "failed"  # the backend says that it cannot; it is asked again
    UNPINNED = "unpinned"  # promised, and the backend has lost it: it is asked again
    UNPINNING = "unpinning"  # nobody holds it any more; the backend is to unpin


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

# None is a content that the ledger does not know: before the first promise, and after the last.
# What is not in the table changes nothing.
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
    """The state of a content in *state* once *event* has happened; None: the ledger forgets it."""
    return TRANSITIONS.get((state, event), state)


class TrackerStatus(Enum):
    """What a backend says it has of one content."""

    ABSENT = auto()  # not in its pinset: positive word, not silence
    UNTRACKED = auto()  # in its pinset, and a node that is to keep it does not know of that (yet)
    QUEUED = auto()  # in its pinset, not begun
    PINNING = auto()
    PINNED = auto()  # as many replicas as are wanted
    FAILED = auto()  # in its pinset, and every replica failed
    LOST = auto()  # in its pinset, and replicas that were there are gone: it is to be asked again
    UNKNOWN = auto()  # it could not say


@dataclass(frozen=True, slots=True)
class Peer:
    """One node of a backend and what it says of a content, in the backend's own words.

    *at* is since when; None where the backend does not tell."""

    name: str
    status: str
    at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """What a status check has shown: *replicas* of *wanted* are there.

    *reason* says why in words for people, where something is wrong."""

    status: TrackerStatus
    replicas: int = 0
    wanted: int = 1
    peers: Sequence[Peer] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A content in a backend's pinset; its own lists say that *replicas* of *wanted* are there."""

    cid: Cid
    replicas: int = 1
    wanted: int = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What the ledger has of a content: its *number*, whether somebody holds it, and how many
    *replicas* of *wanted* there were when it was checked last."""

    number: int
    is_held: bool
    replicas: int
    wanted: int


class LastRequest(StrEnum):
    """What the backend was last asked for."""

    PIN = "pin"
    UNPIN = "unpin"


SLOW_AFTER_ATTEMPTS: Final = 4
"""A content that was asked for more often is slow: it may take an hour, again and again."""


class Queue(IntEnum):
    """The queue in which a content waits; no queue can hold up the others."""

    FIRST_TRY = 0
    RETRY = 1
    SLOW = 2


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A leased content that wants reconciling.

    *is_held* is counted under the lease. *generation* changes with every promise and release, so
    that what was observed under an older one is not written over a newer. *status_checks* were
    taken since the last event, *attempts* made since it was last pinned; *last_request* was asked
    of the backend at *requested_at* (seconds since 1970). *requestor* is the number of the one in
    whose turn it was leased, and *is_shared* says that others hold it too."""

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
        """Where it has waited."""
        if self.attempts > SLOW_AFTER_ATTEMPTS:
            return Queue.SLOW
        return Queue.RETRY if self.attempts + self.status_checks else Queue.FIRST_TRY


@dataclass(frozen=True, slots=True)
class LeaseQuota:
    """How many contents may be leased: at most so many of each queue, and *most* of them in all.

    *releases* are contents that nobody holds, whatever their queue. *held* is the requestor and the
    queue of each content that is under way, so that none gets more than its share; with None all
    may go to one."""

    most: int
    first_tries: int = 0
    retries: int = 0
    slow: int = 0
    releases: int = 0
    held: Sequence[tuple[int, Queue]] | None = None


def shared_by_all(number: int) -> int:
    """How many workers there must be so that one requestor alone gets *number*."""
    return number + max(1, number // 2)


def fair_share(free: int, held: int) -> int:
    """How many more of *free* workers a requestor gets that has *held* already: as many as leave
    half of what it then has to the others, and never the last one but to who has none.

    One alone has two thirds of all workers, the next one two thirds of the rest; so whoever comes
    finds room at once, however long the work of the others takes."""
    if free == 1:
        return 0 if held else 1
    return max(0, min((2 * free - held + 2) // 3, free - 1))


class RemainingQuota:
    """What is left of *quota* while contents are leased one after the other."""

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
        """How many may be leased of *queue*."""
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
        """One more of *queue* is leased for *requestor*."""
        self.left -= 1
        self._queues[queue] -= 1
        self._held[requestor, queue] += 1
        self._held_in_all[requestor] += 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What reconciling a content has shown.

    *event* is None where nothing was observed (the backend is unreachable); *again_in* seconds
    until the next status check, None: nothing is left to do. *status* is kept for whoever asks for
    the status; *attempted* says that the backend was asked for it once more, *is_untried* that it
    has not begun with what it was asked for last, *is_uncounted* that this status check makes no
    later backoff longer."""

    event: Event | None
    again_in: float | None
    status: BackendStatus | None = None
    error: str | None = None
    attempted: bool = False
    is_untried: bool = False
    is_uncounted: bool = False


@dataclass(frozen=True, slots=True)
class ResyncReport:
    """What a comparison of the ledger with the backend's pinset has found.

    Moments are seconds since 1970. *listed* contents are in the pinset; *missing* ones were pinned
    for all we knew and are not, and are checked again; *unmanaged* are listed and nobody here has
    asked for them, *sample* has the first of them. Of *under_replicated* contents that are promised
    here and listed, fewer replicas are there than are wanted: they are checked again too."""

    started_at: float
    ended_at: float
    listed: int
    missing: int
    unmanaged: int
    sample: tuple[Cid, ...] = ()
    under_replicated: int = 0
