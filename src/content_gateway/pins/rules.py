"""What is to be done about a content, and what follows from what was seen: rules without I/O.

Knows the traps of a backend whose changes take a while to be seen (docs/facts/pins.md, Traps): a
status check that shows a content absent, or still there after an unpin, says nothing until the last
change is older than the backend's batch age. Who looks, sends and writes is left to the
reconciler."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from content_gateway.errors import GatewayError, Overloaded, PinDeferred, PinFailed
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    LastRequest,
    Outcome,
    TrackerStatus,
    WorkItem,
)
from content_gateway.pins.availability import is_unreachable
from content_gateway.pins.poll_interval import PollInterval

# Seconds that may pass between the record of a request and the request itself; else it is not sent.
LONGEST_STALL: Final = 5.0
# Seconds after which a request that changed nothing may be sent once more, twice as long each time.
IN_VAIN: Final = 15.0
# Status checks after which being held up makes no backoff longer: it is 4 s then.
_HELD_UP_LOOKS: Final = 5
_SLOW: Final = "It takes long; the next try has more time."
_NOT_FOUND: Final = "It was not found in time."
_OUR_FAULT: Final = "Something went wrong on our side; it is tried again."
_EVENTS: Final = {
    TrackerStatus.ABSENT: Event.SEEN_ABSENT,
    TrackerStatus.UNTRACKED: Event.SEEN_QUEUED,
    TrackerStatus.QUEUED: Event.SEEN_QUEUED,
    TrackerStatus.PINNING: Event.SEEN_PINNING,
    TrackerStatus.PINNED: Event.SEEN_PINNED,
    TrackerStatus.FAILED: Event.SEEN_FAILED,
    TrackerStatus.LOST: Event.SEEN_QUEUED,
    TrackerStatus.UNKNOWN: None,
}


@dataclass(frozen=True, slots=True)
class ReconcilePolicy:
    """Seconds and numbers of the reconciler's work.

    *idle* passes at most between two looks at the ledger, *gather* at least, and *gather_many*
    while more than a *batch* a second is leased: what is due soon is checked together then.
    *workers* contents of one requestor are under way at once, and half as many again are kept for
    the others; *sends* of them are asked of the backend at once (None: all), and a status check
    asks for *batch* of them. *first_attempt_timeout* is the time of a first try,
    *second_attempt_timeout* that of the next one, and each later one has twice as much, up to
    *longest_attempt_timeout*. The first status check after a request waits as long as those before
    it have needed, at most *longest_first_gap*; backoff between status checks grow to
    *longest_backoff*, between tries of what failed to *longest_failure_backoff*, between probes of
    a backend that is unreachable to *longest_unreachable_backoff*. Where a backend queues what it
    is sent, a first try waits at most *longest_turn* for its place there."""

    workers: int = 64
    sends: int | None = None
    batch: int = 50
    lease: float = 30.0
    idle: float = 1.0
    gather: float = 0.01
    gather_many: float = 0.01
    first_attempt_timeout: float = 5.0
    second_attempt_timeout: float = 30.0
    longest_attempt_timeout: float = 3600.0
    first_backoff: float = 0.5
    longest_first_gap: float = 20.0
    longest_backoff: float = 300.0
    longest_failure_backoff: float = 600.0
    longest_unreachable_backoff: float = 10.0
    longest_turn: float = 10.0


class Action(Enum):
    """What is to be asked of the backend now."""

    PIN = auto()
    UNPIN = auto()
    WITHDRAW = auto()  # out of the backend's queue for a while, although it is promised


class DecisionRules:
    """The rules of one reconciler, for a backend with this *batch_age*."""

    def __init__(
        self,
        policy: ReconcilePolicy,
        batch_age: float,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._batch_age = batch_age + LONGEST_STALL if batch_age else 0.0
        self._jitter = jitter
        self._pace = PollInterval(policy.first_backoff, policy.longest_first_gap)

    def oldest_word(self, item: WorkItem, now: float) -> float | None:
        """How many seconds old what a backend says of *item* may be, for `decide` to go by it.

        0 of what nobody holds any more; None where what was final is in doubt, and the backend is
        to find out now."""
        if not item.is_held:
            return 0.0
        if item.state is ContentState.PINNED and item.status_checks > 1:
            return None
        if item.last_request is None:
            # It may have been here before, and released: then a batch age has passed between
            # that request and the row's end, so that a younger word is from after it.
            return self._batch_age
        age = now - item.requested_at
        # From after the request, and seen once more when it is final; or from after its batch.
        return max(age, 0.0) if age < self._batch_age else age - self._batch_age

    def decide(self, item: WorkItem, seen: BackendStatus, now: float) -> Action | Outcome:
        """What to do about *item*, of which *seen* was just seen; or what it has come to."""
        # A clock that was set back in between must not make the request younger than new.
        age = max(0.0, now - item.requested_at)
        unsure_for = self._batch_age - age if item.last_request is not None else 0.0
        if not item.is_held:
            return self._let_go(item, seen, unsure_for)
        if item.last_request is LastRequest.UNPIN and unsure_for > 0:
            # What is seen may be what is about to go: the request to keep it must come after.
            return Action.PIN
        if (
            seen.status is TrackerStatus.PINNED
            and item.state is not ContentState.PINNED
            and item.status_checks
        ):
            self._pace.record(now, at_first=item.status_checks == 1)
        if seen.status in (TrackerStatus.LOST, TrackerStatus.UNTRACKED):
            return self._ask_again(item, seen, age, unsure_for)
        return self._keep(item, seen, unsure_for)

    def _keep(self, item: WorkItem, seen: BackendStatus, unsure_for: float) -> Action | Outcome:
        is_settled = unsure_for <= 0
        match seen.status:
            case TrackerStatus.PINNED:
                # Seen once more when the change can no longer be lost; then nothing is left to do.
                return _seen(seen, None if is_settled else unsure_for)
            case TrackerStatus.ABSENT if not is_settled:
                return Outcome(None, min(unsure_for, self.backoff(item.status_checks)))
            case TrackerStatus.FAILED if item.state is not ContentState.FAILED:
                return _seen(seen, self.failure_backoff(item.attempts), error=seen.reason)
            case TrackerStatus.ABSENT | TrackerStatus.FAILED:
                return Action.PIN
        if not _is_partly_there(item, seen):
            return _seen(seen, self.backoff(item.status_checks), error=seen.reason)
        # Where a replica does not answer nothing can be done, and the resync looks again.
        is_done = seen.status is TrackerStatus.UNKNOWN and is_settled
        return Outcome(
            None, None if is_done else self.backoff(item.status_checks), seen, seen.reason
        )

    def _ask_again(
        self, item: WorkItem, seen: BackendStatus, age: float, unsure_for: float
    ) -> Action | Outcome:
        """What to do about what is in the pinset and is not kept as it says.

        The last request may have changed nothing: a cluster gives a replica to a peer that is gone
        as long as it goes by the room that this one had, and its peers may not hear of each other's
        changes for minutes (go-ds-crdt#285). So it need not be final to be sent again."""
        left = min(unsure_for, IN_VAIN * 2.0 ** min(max(item.attempts - 1, 0), 10) - age)
        if left <= 0:
            return Action.PIN
        backoff = min(left, self.backoff(item.status_checks))
        if _is_partly_there(item, seen):
            return Outcome(None, backoff, seen, seen.reason)
        # For a moment it is usual, and no news.
        is_usual = seen.status is TrackerStatus.UNTRACKED and item.attempts <= 1
        return _seen(seen, backoff, error=None if is_usual else seen.reason)

    def _let_go(self, item: WorkItem, seen: BackendStatus, unsure_for: float) -> Action | Outcome:
        if seen.status is TrackerStatus.UNKNOWN:
            return Outcome(None, self.backoff(item.status_checks), seen, seen.reason)
        if item.last_request is LastRequest.UNPIN and unsure_for > 0:
            return Outcome(None, unsure_for, seen)
        # What was asked for may be half here (embedded) although it is seen as absent: it is let
        # go of once in any case.
        if (
            seen.status is TrackerStatus.ABSENT
            and unsure_for <= 0
            and item.last_request is not LastRequest.PIN
        ):
            return Outcome(Event.SEEN_ABSENT, None)
        return Action.UNPIN

    def pinned(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """What it has come to when the backend, asked to pin, has said *seen*."""
        if seen.status is TrackerStatus.PINNED:
            return _seen(seen, self._batch_age or None, attempted=True)
        if seen.status is TrackerStatus.FAILED:
            backoff = self.failure_backoff(item.attempts)
            return _seen(seen, backoff, error=seen.reason, attempted=True)
        wait = max(self._policy.first_backoff, self._pace.seconds(item.requested_at))
        return _seen(seen, self._spread(wait), attempted=True)

    def withdrawn(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """What it has come to when the backend, which has shown *seen*, has released for now."""
        backoff = self.failure_backoff(item.attempts)
        # No worker was at what is still queued: that was no try.
        is_untried = seen.status is TrackerStatus.QUEUED
        return Outcome(Event.SEEN_QUEUED, backoff, None, _SLOW, is_untried=is_untried)

    def unpinned(self) -> Outcome:
        """What it has come to when the backend has heard the request to unpin."""
        return Outcome(None, self._batch_age, attempted=True)

    def broke(self, item: WorkItem, error: Exception, *, attempted: bool) -> Outcome:
        """What it has come to when *error* was raised."""
        detail = (error.detail if isinstance(error, GatewayError) else "") or _OUR_FAULT
        if isinstance(error, PinFailed):
            backoff = self.failure_backoff(item.attempts)
            return Outcome(Event.SEEN_FAILED, backoff, None, detail, attempted)
        if is_unreachable(error, is_write=attempted):
            # No reason: it is the backend's, and kept once, for all that waits (backend_health.py).
            return self.held_up(item)
        if isinstance(error, TimeoutError):
            if self.attempt_timeout(item) >= self._policy.longest_attempt_timeout:
                backoff = self.failure_backoff(item.attempts)
                return Outcome(Event.SEEN_FAILED, backoff, None, _NOT_FOUND, attempted)
            return Outcome(Event.SEEN_PINNING, self.backoff(item.attempts), None, _SLOW, attempted)
        is_busy = isinstance(error, PinDeferred | Overloaded)
        longest = self.backoff(item.attempts) if is_busy else None
        return Outcome(
            None, longest or self.failure_backoff(item.status_checks), None, detail, attempted
        )

    def held_up(self, item: WorkItem) -> Outcome:
        """What it has come to where nothing was observed of it, as the backend was unreachable, or
        nothing done, as there was no room: no fault of its own, so that it is soon checked
        again."""
        is_uncounted = item.status_checks >= _HELD_UP_LOOKS
        return Outcome(
            None, self.unreachable_backoff(item.status_checks), is_uncounted=is_uncounted
        )

    @property
    def longest(self) -> float:
        """Seconds that nothing waits longer for: more was said by a clock that was wrong."""
        policy = self._policy
        backoffs = (
            policy.longest_backoff,
            policy.longest_failure_backoff,
            policy.longest_unreachable_backoff,
        )
        return max(*backoffs, self._batch_age, 2 * policy.lease)

    @property
    def longest_turn(self) -> float:
        """Seconds that a first try waits for its place in a backend's queue."""
        return self._policy.longest_turn

    @property
    def first_attempt_timeout(self) -> float:
        """Seconds of a first try."""
        return min(self._policy.longest_attempt_timeout, self._policy.first_attempt_timeout)

    def attempt_timeout(self, item: WorkItem) -> float:
        """Seconds that one try may take."""
        policy = self._policy
        if not item.attempts:
            return self.first_attempt_timeout
        return min(
            policy.longest_attempt_timeout,
            policy.second_attempt_timeout * 2.0 ** min(item.attempts - 1, 20),
        )

    def backoff(self, times: int) -> float:
        """Seconds until the next status check, when *times* status checks were taken."""
        return self._grown(self._policy.first_backoff, 1.5, times, self._policy.longest_backoff)

    def failure_backoff(self, times: int) -> float:
        """Seconds until the next try of what has failed *times*."""
        return self._grown(
            2 * self._policy.first_backoff, 2.0, times, self._policy.longest_failure_backoff
        )

    def unreachable_backoff(self, times: int) -> float:
        """Seconds until a backend that was unreachable *times* is asked again."""
        return self._grown(
            self._policy.first_backoff, 2.0, times, self._policy.longest_unreachable_backoff
        )

    def _grown(self, first: float, factor: float, times: int, longest: float) -> float:
        """A backoff that grows with every time, with jitter so that many do not march in step."""
        return self._spread(min(longest, first * factor ** min(times, 60)))

    def _spread(self, backoff: float) -> float:
        return backoff * (0.5 + self._jitter() / 2)


def _is_partly_there(item: WorkItem, seen: BackendStatus) -> bool:
    """Whether a content that was pinned is still held, though not by all who should, and nobody
    is said to bring it in."""
    is_told = seen.status in (TrackerStatus.LOST, TrackerStatus.UNTRACKED, TrackerStatus.UNKNOWN)
    return is_told and item.state is ContentState.PINNED and seen.replicas > 0


def _seen(
    seen: BackendStatus,
    again_in: float | None,
    *,
    error: str | None = None,
    attempted: bool = False,
) -> Outcome:
    """What was seen, as what it has come to."""
    return Outcome(_EVENTS[seen.status], again_in, seen, error, attempted)
