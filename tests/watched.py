"""The real command with a watch inside: `python -m tests.watched FILE serve` writes the lag.

The loop that the service runs on has one task more, the watcher of `tests/lag.py`; nothing else
differs from `python -m content_gateway`. FILE holds the two worst lags so far, in seconds of CPU,
the worst last; SIGUSR1 begins again."""

import asyncio
import signal
import sys
from pathlib import Path

import uvloop

from content_gateway.cli.main import main
from tests.lag import Lag, watch


class ToldLag(Lag):
    """A lag that stands in the file *told*."""

    def __init__(self, told: Path) -> None:
        super().__init__()
        self._told = told
        self._second = 0.0

    def see(self, cpu: float, wall: float) -> None:
        if cpu > self._second:
            self._second, worst = sorted((cpu, self.worst))
            self._told.write_text(f"{self._second} {worst}")
        super().see(cpu, wall)

    def forget(self) -> None:
        """Begin again."""
        self.worst = self.wall = self._second = 0.0


class Policy:
    """Makes the loop of the service, with the watcher on it."""

    def __init__(self, lag: ToldLag) -> None:
        self._lag = lag
        self._make = uvloop.new_event_loop
        self._watcher: asyncio.Task[None] | None = None

    def __call__(self) -> uvloop.Loop:
        loop = self._make()
        loop.call_soon(self._begin, loop)
        return loop

    def _begin(self, loop: uvloop.Loop) -> None:
        self._watcher = loop.create_task(watch(self._lag), name="loop lag")


if __name__ == "__main__":
    lag = ToldLag(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, lambda *_: lag.forget())
    uvloop.new_event_loop = Policy(lag)
    main()
