"""How late the event loop is: what it runs is late for everybody by as much.

Knows one timer, and by how much it was late. What follows from that is left to those who read it
(http/overload.py, wiring/metrics.py)."""

import asyncio
from typing import Final

from content_gateway.telemetry.numbers import Histogram

INTERVAL: Final = 0.1


class LoopLag:
    """The lateness of a timer of a tenth of a second, between `start` and `close`.

    *seconds* has every one, *latest* the newest, in seconds."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self.latest = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure on the running event loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + INTERVAL, self._tick, loop.time() + INTERVAL)

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self, due: float) -> None:
        self.latest = max(0.0, asyncio.get_running_loop().time() - due)
        self.seconds.observe(self.latest)
        self.start()
