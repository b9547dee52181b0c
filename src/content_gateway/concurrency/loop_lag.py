"""How late the event loop is: what it runs is late for everybody by as much.

Knows one timer, and by how much it was late. What follows from that is left to those who read it
(http/overload.py, wiring/metrics.py)."""

import asyncio
from collections import deque
from typing import Final

from content_gateway.telemetry.numbers import Histogram

INTERVAL: Final = 0.1
_STANDING: Final = 2  # timers in a row


class LoopLag:
    """The lateness of a timer of a tenth of a second, between `start` and `close`.

    *seconds* has every one."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self._latest = deque([0.0] * _STANDING, maxlen=_STANDING)
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
        """The least of the last two, in seconds, one that is due and has not come included.

        One pause, as of a machine that was busy elsewhere, is over when it is seen; what stands is
        more work than can be done, as the estimator of CoDel has it for queues (RFC 8289)."""
        overdue = asyncio.get_running_loop().time() - self._due
        if overdue > 0:
            return min(overdue, self._latest[-1])
        return min(self._latest)

    def _tick(self) -> None:
        lag = max(0.0, asyncio.get_running_loop().time() - self._due)
        self._latest.append(lag)
        self.seconds.observe(lag)
        self.start()
