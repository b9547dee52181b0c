"""The breaker: stops asking a server that fails, and tries it again with one request.

Closed while fewer than half of the last calls failed (at most 20, none older than 10 s); then
open, and nobody is let through, for two seconds; then one probe decides. Knows no network: what
counts as a failure is told by whoever asks (facts-edge section 3)."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final


class Breaker:
    """The health of one server."""

    CALLS: Final = 20
    LEAST_CALLS: Final = 3
    WINDOW_SECONDS: Final = 10.0
    OPEN_SECONDS: Final = 2.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=self.CALLS)
        self._open_until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """True while the server is not to be asked."""
        return self._open_until is not None and (self._probing or self._clock() < self._open_until)

    def enter(self) -> bool:
        """True when a call may be made; its outcome must then be told, or `left`."""
        if self.is_open:
            return False
        self._probing = self._open_until is not None
        return True

    def succeeded(self) -> None:
        """A call was answered: whatever went before is forgiven if it was the probe."""
        if self._probing:
            self._probing, self._open_until = False, None
            self._outcomes.clear()
        self._outcomes.append((self._clock(), True))

    def failed(self) -> None:
        """A call was not answered, or too late to be of use."""
        now = self._clock()
        self._outcomes.append((now, False))
        recent = [good for when, good in self._outcomes if now - when <= self.WINDOW_SECONDS]
        fails = len(recent) >= self.LEAST_CALLS and 2 * sum(recent) <= len(recent)
        if self._probing or fails:
            self._probing, self._open_until = False, now + self.OPEN_SECONDS

    def left(self) -> None:
        """A call was given up for reasons that are not the server's."""
        self._probing = False
