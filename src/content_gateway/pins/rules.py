"""What is to be done about a content, and what follows from what was seen: rules without I/O.

Knows the traps of a backend whose changes take a while to be seen (docs/facts/pins.md, Traps): a
status check that shows a content absent, or still there after an unpin, says nothing until the last
change is older than the backend's batch age. Who looks, sends and writes is left to the
reconciler."""

import random
from collections.abc import Callable
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
from content_gateway.pins.backoff import Backoffs, PollInterval, ReconcilePolicy

# Seconds that may pass between the record of a request and the request itself; else it is not sent.
MAX_SEND_DELAY: Final = 5.0
# Seconds after which a request that changed nothing may be sent once more, twice as long each time.
RESEND_AFTER: Final = 15.0
# Status checks after which being held up makes no backoff longer: it is 4 s then.
_MAX_COUNTED_POSTPONES: Final = 5
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
        self._batch_age = batch_age + MAX_SEND_DELAY if batch_age else 0.0
        self.backoffs = Backoffs(policy, jitter)
        self._poll_interval = PollInterval(policy.first_backoff, policy.longest_first_gap)

    @property
    def longest_wait(self) -> float:
        """The longest time that a content waits for anything, in seconds."""
        return self.backoffs.longest(self._batch_age)

    def max_status_age(self, item: WorkItem, now: float) -> float | None:
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
        uncertain_for = self._batch_age - age if item.last_request is not None else 0.0
        if not item.is_held:
            return self._decide_released(item, seen, uncertain_for)
        if item.last_request is LastRequest.UNPIN and uncertain_for > 0:
            # What is seen may be what is about to go: the request to keep it must come after.
            return Action.PIN
        if (
            seen.status is TrackerStatus.PINNED
            and item.state is not ContentState.PINNED
            and item.status_checks
        ):
            self._poll_interval.record(now, at_first=item.status_checks == 1)
        if seen.status in (TrackerStatus.LOST, TrackerStatus.UNTRACKED):
            return self._decide_resend(item, seen, age, uncertain_for)
        return self._decide_held(item, seen, uncertain_for)

    def _decide_held(
        self, item: WorkItem, seen: BackendStatus, uncertain_for: float
    ) -> Action | Outcome:
        is_final = uncertain_for <= 0
        match seen.status:
            case TrackerStatus.PINNED:
                # Seen once more when the change can no longer be lost; then nothing is left to do.
                return _outcome_of(seen, None if is_final else uncertain_for)
            case TrackerStatus.ABSENT if not is_final:
                return Outcome(
                    None, min(uncertain_for, self.backoffs.status_backoff(item.status_checks))
                )
            case TrackerStatus.FAILED if item.state is not ContentState.FAILED:
                return _outcome_of(
                    seen, self.backoffs.failure_backoff(item.attempts), error=seen.reason
                )
            case TrackerStatus.ABSENT | TrackerStatus.FAILED:
                return Action.PIN
        if not _is_partly_held(item, seen):
            return _outcome_of(
                seen, self.backoffs.status_backoff(item.status_checks), error=seen.reason
            )
        # Where a replica does not answer nothing can be done, and the resync looks again.
        is_done = seen.status is TrackerStatus.UNKNOWN and is_final
        return Outcome(
            None,
            None if is_done else self.backoffs.status_backoff(item.status_checks),
            seen,
            seen.reason,
        )

    def _decide_resend(
        self, item: WorkItem, seen: BackendStatus, age: float, uncertain_for: float
    ) -> Action | Outcome:
        """What to do about what is in the pinset and is not kept as it says.

        The last request may have changed nothing: a cluster gives a replica to a peer that is gone
        as long as it goes by the room that this one had, and its peers may not hear of each other's
        changes for minutes (go-ds-crdt#285). So it need not be final to be sent again."""
        left = min(uncertain_for, RESEND_AFTER * 2.0 ** min(max(item.attempts - 1, 0), 10) - age)
        if left <= 0:
            return Action.PIN
        backoff = min(left, self.backoffs.status_backoff(item.status_checks))
        if _is_partly_held(item, seen):
            return Outcome(None, backoff, seen, seen.reason)
        # For a moment it is usual, and no news.
        is_usual = seen.status is TrackerStatus.UNTRACKED and item.attempts <= 1
        return _outcome_of(seen, backoff, error=None if is_usual else seen.reason)

    def _decide_released(
        self, item: WorkItem, seen: BackendStatus, uncertain_for: float
    ) -> Action | Outcome:
        if seen.status is TrackerStatus.UNKNOWN:
            return Outcome(
                None, self.backoffs.status_backoff(item.status_checks), seen, seen.reason
            )
        if item.last_request is LastRequest.UNPIN and uncertain_for > 0:
            return Outcome(None, uncertain_for, seen)
        # What was asked for may be half here (embedded) although it is seen as absent: it is let
        # go of once in any case.
        if (
            seen.status is TrackerStatus.ABSENT
            and uncertain_for <= 0
            and item.last_request is not LastRequest.PIN
        ):
            return Outcome(Event.SEEN_ABSENT, None)
        return Action.UNPIN

    def after_pin(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """What it has come to when the backend, asked to pin, has said *seen*."""
        if seen.status is TrackerStatus.PINNED:
            return _outcome_of(seen, self._batch_age or None, attempted=True)
        if seen.status is TrackerStatus.FAILED:
            backoff = self.backoffs.failure_backoff(item.attempts)
            return _outcome_of(seen, backoff, error=seen.reason, attempted=True)
        wait = max(self._policy.first_backoff, self._poll_interval.seconds(item.requested_at))
        return _outcome_of(seen, self.backoffs.with_jitter(wait), attempted=True)

    def after_withdrawal(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """What it has come to when the backend, which has shown *seen*, has released for now."""
        backoff = self.backoffs.failure_backoff(item.attempts)
        # No worker was at what is still queued: that was no try.
        is_untried = seen.status is TrackerStatus.QUEUED
        return Outcome(Event.SEEN_QUEUED, backoff, None, _SLOW, is_untried=is_untried)

    def after_unpin(self) -> Outcome:
        """What it has come to when the backend has heard the request to unpin."""
        return Outcome(None, self._batch_age, attempted=True)

    def after_error(self, item: WorkItem, error: Exception, *, attempted: bool) -> Outcome:
        """What it has come to when *error* was raised."""
        detail = (error.detail if isinstance(error, GatewayError) else "") or _OUR_FAULT
        if isinstance(error, PinFailed):
            backoff = self.backoffs.failure_backoff(item.attempts)
            return Outcome(Event.SEEN_FAILED, backoff, None, detail, attempted)
        if is_unreachable(error, is_write=attempted):
            # No reason: it is the backend's, and kept once, for all that waits (backend_health.py).
            return self.postponed(item)
        if isinstance(error, TimeoutError):
            if self.backoffs.attempt_timeout(item) >= self._policy.longest_attempt_timeout:
                backoff = self.backoffs.failure_backoff(item.attempts)
                return Outcome(Event.SEEN_FAILED, backoff, None, _NOT_FOUND, attempted)
            return Outcome(
                Event.SEEN_PINNING,
                self.backoffs.status_backoff(item.attempts),
                None,
                _SLOW,
                attempted,
            )
        is_busy = isinstance(error, PinDeferred | Overloaded)
        longest = self.backoffs.status_backoff(item.attempts) if is_busy else None
        return Outcome(
            None,
            longest or self.backoffs.failure_backoff(item.status_checks),
            None,
            detail,
            attempted,
        )

    def postponed(self, item: WorkItem) -> Outcome:
        """What it has come to where nothing was observed of it, as the backend was unreachable, or
        nothing done, as there was no room: no fault of its own, so that it is soon checked
        again."""
        is_uncounted = item.status_checks >= _MAX_COUNTED_POSTPONES
        return Outcome(
            None, self.backoffs.unreachable_backoff(item.status_checks), is_uncounted=is_uncounted
        )


def _is_partly_held(item: WorkItem, seen: BackendStatus) -> bool:
    """Whether a content that was pinned is still held, though not by all who should, and nobody
    is said to bring it in."""
    has_no_progress = seen.status in (
        TrackerStatus.LOST,
        TrackerStatus.UNTRACKED,
        TrackerStatus.UNKNOWN,
    )
    return has_no_progress and item.state is ContentState.PINNED and seen.replicas > 0


def _outcome_of(
    seen: BackendStatus,
    again_in: float | None,
    *,
    error: str | None = None,
    attempted: bool = False,
) -> Outcome:
    """What was seen, as what it has come to."""
    return Outcome(_EVENTS[seen.status], again_in, seen, error, attempted)
