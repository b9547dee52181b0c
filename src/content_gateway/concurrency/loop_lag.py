"""How late the event loop is: what it runs is late for everybody by as much.

Knows one timer, and by how much it was late. What follows from that is left to those who read it
(http/overload.py, wiring/metrics.py)."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from content_gateway.telemetry.numbers import Histogram

INTERVAL: Final = 0.1
# Seconds in which every timer was late, and two at least: a burst of some hundred requests on a
# busy machine is worked off meanwhile.
_WINDOW: Final = 2.0
_LEAST: Final = 2


class LoopLag:
    """The lateness of a timer of a tenth of a second, between `start` and `close`.

    *seconds* has every one."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        # When each came, and how late: those within the window, and two at least.
        self._latest = deque([(float("-inf"), 0.0)] * _LEAST)
        self._due = float("inf")  # when the next one is
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure on the running event loop."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + INTERVAL
        self._timer = loop.call_at(self._due, self._tick)

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._due = float("inf")

    @property
    def standing(self) -> float:
        """The least of the last two seconds, in seconds; a timer that is due and has not come is as
        late as it is now.

        One pause, as of a machine that was busy elsewhere, is over when it is seen; what stands is
        more work than can be done, as the estimator of CoDel has it for queues (RFC 8289)."""
        now = asyncio.get_running_loop().time()
        if now > self._due:
            return self._least([*self._latest, (now, now - self._due)], now)
        return self._least(list(self._latest), now)

    @staticmethod
    def _least(latest: Sequence[tuple[float, float]], now: float) -> float:
        inside = [lag for at, lag in latest if at >= now - _WINDOW]
        return min(inside) if len(inside) >= _LEAST else min(lag for _, lag in latest[-_LEAST:])

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        lag = max(0.0, now - self._due)
        self._latest.append((now, lag))
        while len(self._latest) > _LEAST and self._latest[0][0] < now - _WINDOW:
            self._latest.popleft()
        self.seconds.observe(lag)
        self.start()
