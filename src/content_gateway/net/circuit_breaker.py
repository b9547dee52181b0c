"""The breaker: stops asking a server that fails, and tries it again with one request.

Closed while fewer than half of the last calls failed (at most 20, none older than 10 s); then
open, and no call is let in, for two seconds; then one probe decides (half-open). Knows no network:
the caller decides what counts as a failure (docs/facts/edge.md, Outbound)."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final


class BreakerAttempt:
    """One call that a breaker has let in. Its first outcome counts.

    Each must get an outcome in the end: no call is let in beside a probe."""

    def __init__(self, breaker: "Breaker") -> None:
        self._breaker: Breaker | None = breaker

    @property
    def is_probe(self) -> bool:
        """Whether it is the one call that decides how the server is."""
        return self._breaker is not None and self._breaker.is_decided_by(self)

    def succeeded(self) -> None:
        """The call was answered; the breaker closes if it was the probe."""
        self._record(good=True)

    def failed(self) -> None:
        """The call was not answered, or too late to be of use."""
        self._record(good=False)

    def abandoned(self) -> None:
        """The call was given up for reasons that are not the server's."""
        self._record(good=None)

    def _record(self, *, good: bool | None) -> None:
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker.record(self, good)


class Breaker:
    """The health of one server."""

    CALLS: Final = 20
    LEAST_CALLS: Final = 3
    WINDOW_SECONDS: Final = 10.0
    OPEN_SECONDS: Final = 2.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=self.CALLS)
        self._open_until: float | None = None  # None while closed
        self._probe: BreakerAttempt | None = None

    @property
    def is_open(self) -> bool:
        """True while the server is not to be asked."""
        if self._open_until is None:
            return False
        return self._probe is not None or self._clock() < self._open_until

    def enter(self) -> BreakerAttempt | None:
        """The call that may be made now; None when none may."""
        if self.is_open:
            return None
        attempt = BreakerAttempt(self)
        if self._open_until is not None:
            self._probe = attempt
        return attempt

    def is_decided_by(self, attempt: BreakerAttempt) -> bool:
        """Whether *attempt* is the probe."""
        return attempt is self._probe

    def record(self, attempt: BreakerAttempt, good: bool | None) -> None:
        """Record the outcome of *attempt*; None: it says nothing about the server."""
        is_probe = self.is_decided_by(attempt)
        if is_probe:
            self._probe = None
        # What began before the breaker opened neither closes it nor keeps it open.
        if good is None or (self._open_until is not None and not is_probe):
            return
        now = self._clock()
        self._outcomes.append((now, good))
        if is_probe and good:
            self._open_until = None
        elif is_probe or (not good and self._fails(now)):
            self._open_until = now + self.OPEN_SECONDS
            self._outcomes.clear()

    def _fails(self, now: float) -> bool:
        recent = [good for when, good in self._outcomes if now - when <= self.WINDOW_SECONDS]
        return len(recent) >= self.LEAST_CALLS and 2 * sum(recent) <= len(recent)
