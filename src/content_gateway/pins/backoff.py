"""How long to wait: backoffs, attempt timeouts, and when to check a new request. No I/O.

Knows the operator's policy, and how long recent requests took. What waits is up to rules.py."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from content_gateway.model.content_state import WorkItem

_INCREASE: Final = 1.05
_DECREASE: Final = 0.97
_HALF_LIFE: Final = 10.0  # seconds without requests, after which the interval is half as long


@dataclass(frozen=True, slots=True)
class ReconcilePolicy:
    """The reconciler's limits and times; times are in seconds.

    *workers*: contents of one requestor reconciled at once; half as many more are reserved for
    other requestors. *sends*: requests to the backend at once (None: no limit). *batch*: contents
    in one status check. *lease*: length of a lease.

    *idle* and *gather*: longest and shortest pause between two reads of the queue; *gather_many*
    replaces *gather* while more than a *batch* a second is leased, so that batches fill up.

    *first_attempt_timeout* and *second_attempt_timeout*: of the first two attempts. Each later one
    has twice the time, up to *longest_attempt_timeout*.

    *first_backoff* is the shortest backoff. It grows to *longest_backoff* between status checks, to
    *longest_failure_backoff* between attempts of a failed content, and to
    *longest_unreachable_backoff* between probes of an unreachable backend. *longest_first_backoff*
    bounds the wait for the first status check after a request (see PollInterval).

    *longest_queue_wait*: how long a first attempt waits for room in a backend's queue."""

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
    longest_first_backoff: float = 20.0
    longest_backoff: float = 300.0
    longest_failure_backoff: float = 600.0
    longest_unreachable_backoff: float = 10.0
    longest_queue_wait: float = 10.0


class Backoffs:
    """The waiting times that *policy* asks for, in seconds."""

    def __init__(
        self, policy: ReconcilePolicy, jitter: Callable[[], float] = random.random
    ) -> None:
        self._policy = policy
        self._jitter = jitter

    def longest(self, batch_age: float) -> float:
        """The longest wait of all. A later due time in the ledger is from a wrong clock."""
        policy = self._policy
        backoffs = (
            policy.longest_backoff,
            policy.longest_failure_backoff,
            policy.longest_unreachable_backoff,
        )
        return max(*backoffs, batch_age, 2 * policy.lease)

    @property
    def longest_queue_wait(self) -> float:
        """How long a first attempt waits for room in a backend's queue."""
        return self._policy.longest_queue_wait

    @property
    def first_attempt_timeout(self) -> float:
        """How long the first attempt of a content may take."""
        return min(self._policy.longest_attempt_timeout, self._policy.first_attempt_timeout)

    def attempt_timeout(self, item: WorkItem) -> float:
        """How long the next attempt of *item* may take."""
        policy = self._policy
        # Of a released content only accepted requests count as attempts.
        times = item.attempts if item.is_held else max(item.attempts, item.status_checks)
        if not times:
            return self.first_attempt_timeout
        return min(
            policy.longest_attempt_timeout,
            policy.second_attempt_timeout * 2.0 ** min(times - 1, 20),
        )

    def status_backoff(self, times: int) -> float:
        """Before the next status check, after so many of them."""
        return self._exponential(
            self._policy.first_backoff, 1.5, times, self._policy.longest_backoff
        )

    def failure_backoff(self, times: int) -> float:
        """Before the next attempt, after so many failures."""
        return self._exponential(
            2 * self._policy.first_backoff, 2.0, times, self._policy.longest_failure_backoff
        )

    def unreachable_backoff(self, times: int) -> float:
        """Before the next probe of a backend, after so many without an answer."""
        return self._exponential(
            self._policy.first_backoff, 2.0, times, self._policy.longest_unreachable_backoff
        )

    def _exponential(self, first: float, factor: float, times: int, longest: float) -> float:
        # At most 60 doublings: a float overflows above 2**1023.
        return self.with_jitter(min(longest, first * factor ** min(times, 60)))

    def with_jitter(self, backoff: float) -> float:
        """Between half of *backoff* and all of it, so that retries do not come all at once."""
        return backoff * (0.5 + self._jitter() / 2)


class PollInterval:
    """When to check a request for the first time, adapted to how long recent requests took.

    A busy cluster needs a while for each content, and status checks that come too early slow it
    down further. The interval stays between *least* and *most* seconds, and shrinks while idle, so
    that a single content is checked soon again."""

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = max(least, most)
        self._seconds = least
        self._recorded_at = 0.0

    def seconds(self, now: float) -> float:
        """Seconds between a request made *now* and its first status check."""
        idle = max(0.0, now - self._recorded_at)
        return max(self._least, self._seconds * math.exp2(-idle / _HALF_LIFE))

    def record(self, now: float, *, at_first: bool) -> None:
        """A content was seen pinned: *at_first*, by the first status check since the request."""
        factor = _DECREASE if at_first else _INCREASE
        self._seconds = min(self._most, max(self._least, self.seconds(now) * factor))
        self._recorded_at = now
