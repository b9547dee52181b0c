"""The decision rules: what to do about a content, given its status. No I/O.

Theory of operation. The status of a batching cluster lags behind its changes, and a change that it
accepted may still be lost (docs/facts/pins.md, Traps). So for as long as the last request is
younger than the backend's batch age, the status is uncertain: "absent" does not mean that the pin
was lost, and "pinned" after an unpin does not mean that it will stay. While it is uncertain, the
rules wait and check again; after that they believe the status. A request is repeated only when the
status, believed, still differs from what the ledger wants.

`decide` is called after a status check and returns a request to send (Action) or an outcome to
record. The `after_...` methods return the outcome of a request. Asking, sending and writing is left
to the reconciler; how long to wait is in backoff.py."""

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

# A request that was recorded more than so many seconds ago is not sent: the batch age counts from
# the record, and another worker may have the content by now.
MAX_SEND_DELAY: Final = 5.0
# A request without effect may be sent again after so many seconds, then twice as many each time.
RESEND_AFTER: Final = 15.0
# Postponements stop making the backoff longer after so many status checks: it is 4 s then.
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
    """A request to the backend."""

    PIN = auto()
    UNPIN = auto()
    WITHDRAW = auto()  # an unpin of promised content, to free the backend's queue; a pin follows


class DecisionRules:
    """The rules for a backend with *batch_age* (seconds, see PinBackend.batch_age)."""

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
        self._poll_interval = PollInterval(policy.first_backoff, policy.longest_first_backoff)

    @property
    def longest_wait(self) -> float:
        """The longest time that a content waits for anything, in seconds."""
        return self.backoffs.longest(self._batch_age)

    def max_status_age(self, item: WorkItem, now: float) -> float | None:
        """How old (seconds) the backend's answer about *item* may be so that `decide` can use it.

        0 for a released content. None: a final pin is in doubt, and its nodes must be asked now."""
        if not item.is_held:
            return 0.0
        if item.state is ContentState.PINNED and item.status_checks > 1:
            return None
        if not self._batch_age:
            # A change was not done yet when it was requested, as an older answer may show it.
            return 0.0
        if item.last_request is None:
            # An earlier row of this CID may have been unpinned. That row was deleted two batch ages
            # after the request, so an answer younger than one is from after the unpin.
            return self._batch_age
        age = now - item.requested_at
        # Young request: the answer must be from after the request (the final check follows).
        # Old request: it must be from after the batch in which the request was committed.
        return max(age, 0.0) if age < self._batch_age else age - self._batch_age

    def decide(self, item: WorkItem, seen: BackendStatus, now: float) -> Action | Outcome:
        """The request to send for *item*, whose status is *seen* at *now*; or the outcome."""
        # Never negative, even if the clock was set back since the request.
        age = max(0.0, now - item.requested_at)
        uncertain_for = self._batch_age - age if item.last_request is not None else 0.0
        if not item.is_held:
            return self._decide_released(item, seen, uncertain_for)
        if item.last_request is LastRequest.UNPIN and uncertain_for > 0:
            # The status may still show the pin that is about to be removed, so it proves nothing.
            # The pin request must come after the unpin.
            return Action.PIN
        is_news = seen.status is TrackerStatus.PINNED and item.state is not ContentState.PINNED
        if is_news and not item.attempts and uncertain_for > 0:
            # A pin request was recorded, and was not accepted as far as we know. Before it there
            # may have been an unpin, which the status does not show yet.
            return Action.PIN
        if is_news and item.status_checks:
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
                # Check once more when the batch can no longer be lost. Then the pin is final.
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
        # Held in part, and some peers do not answer: a request would change nothing. The resync
        # checks again.
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
        """For a content that is in the pinset, but not held by the peers that should hold it.

        The last request may have had no effect: a cluster allocates to a dead peer while that
        peer's free space metric is valid, and peers may miss each other's changes for minutes
        (go-ds-crdt#285). So the request may be repeated before its batch age is over."""
        left = min(uncertain_for, RESEND_AFTER * 2.0 ** min(max(item.attempts - 1, 0), 10) - age)
        if left <= 0:
            return Action.PIN
        backoff = min(left, self.backoffs.status_backoff(item.status_checks))
        if _is_partly_held(item, seen):
            return Outcome(None, backoff, seen, seen.reason)
        # Right after a request this is normal: no error is shown.
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
        # After a pin request an absent content may still be half fetched (embedded store), so it
        # is unpinned once in any case.
        if seen.status is not TrackerStatus.ABSENT or item.last_request is LastRequest.PIN:
            return Action.UNPIN
        if item.last_request is None:
            return Outcome(Event.SEEN_ABSENT, None)
        if not self._batch_age and not item.attempts:
            # The request was recorded, and was never accepted: it may not have been sent.
            return Action.UNPIN
        # One batch age more: the next row of this CID may rest on an answer that is as old.
        left = uncertain_for + self._batch_age
        return Outcome(None, left, seen) if left > 0 else Outcome(Event.SEEN_ABSENT, None)

    def after_pin(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """The outcome of a pin request that the backend answered with *seen*."""
        if seen.status is TrackerStatus.PINNED:
            return _outcome_of(seen, self._batch_age or None, attempted=True)
        if seen.status is TrackerStatus.FAILED:
            backoff = self.backoffs.failure_backoff(item.attempts)
            return _outcome_of(seen, backoff, error=seen.reason, attempted=True)
        wait = max(self._policy.first_backoff, self._poll_interval.seconds(item.requested_at))
        return _outcome_of(seen, self.backoffs.with_jitter(wait), attempted=True)

    def after_withdrawal(self, item: WorkItem, seen: BackendStatus) -> Outcome:
        """The outcome of a withdrawal; *seen* is the status before it."""
        backoff = self.backoffs.failure_backoff(item.attempts)
        # What was only queued had no attempt yet.
        is_untried = seen.status is TrackerStatus.QUEUED
        return Outcome(Event.SEEN_QUEUED, backoff, None, _SLOW, is_untried=is_untried)

    def after_unpin(self) -> Outcome:
        """The outcome of an accepted unpin request: check again after the batch age."""
        return Outcome(None, self._batch_age, attempted=True)

    def after_error(self, item: WorkItem, error: Exception, *, attempted: bool) -> Outcome:
        """The outcome when *error* was raised; *attempted*, by a request and not a status check."""
        detail = (error.detail if isinstance(error, GatewayError) else "") or _OUR_FAULT
        if isinstance(error, PinFailed):
            backoff = self.backoffs.failure_backoff(item.attempts)
            return Outcome(Event.SEEN_FAILED, backoff, None, detail, attempted)
        if is_unreachable(error, is_write=attempted):
            # Without a reason: an outage has one for all contents (backend_health.py).
            return self.postponed(item)
        if attempted and not item.is_held:
            # Of a released content only accepted requests count as attempts (_decide_released).
            return Outcome(None, self.backoffs.failure_backoff(item.status_checks), None, detail)
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
        """The outcome of an unreachable backend or full queue: no fault of the content, checked
        soon."""
        is_uncounted = item.status_checks >= _MAX_COUNTED_POSTPONES
        return Outcome(
            None, self.backoffs.unreachable_backoff(item.status_checks), is_uncounted=is_uncounted
        )


def _is_partly_held(item: WorkItem, seen: BackendStatus) -> bool:
    """Whether replicas of a pinned content are missing, some are left, and none is fetched."""
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
    """The outcome that records the status *seen*."""
    return Outcome(_EVENTS[seen.status], again_in, seen, error, attempted)
