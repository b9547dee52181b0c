"""How long the event loop was held, seen from inside it.

A task wakes every few milliseconds and reads the CPU time of the loop's own thread: what was
spent between two wakings kept everybody else waiting. CPU time, so that a machine busy with
other work changes no verdict; the clock on the wall is kept beside it for what blocks without
working (a file, a lock). Garbage is collected as in the service meanwhile, not among all that
the tests have made."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from content_gateway.concurrency.garbage_collection import collect_seldom

_TICK = 0.005
# Seconds of CPU that nothing may hold the loop for: 0.04 at most on a quiet machine. Neighbours
# that empty its caches make 0.14 of them.
MOST_LAG = 0.2


@dataclass
class Lag:
    """The longest time the loop was held: seconds of CPU, and *wall* seconds."""

    worst: float = 0.0
    wall: float = 0.0

    def see(self, cpu: float, wall: float) -> None:
        """Take note of the time between two wakings."""
        self.worst = max(self.worst, cpu)
        self.wall = max(self.wall, wall)


@asynccontextmanager
async def loop_lag() -> AsyncIterator[Lag]:
    """Watch the running loop; the value is final when the block has ended."""
    lag = Lag()
    before = gc.get_threshold()
    collect_seldom()
    watcher = asyncio.create_task(watch(lag), name="loop lag")
    try:
        yield lag
    finally:
        await asyncio.sleep(2 * _TICK)  # what ran last is seen as well
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        gc.unfreeze()
        gc.set_threshold(*before)


async def watch(lag: Lag) -> None:
    """Tell *lag* how long the running loop was held, for ever."""
    while True:
        cpu, wall = time.thread_time(), time.monotonic()
        await asyncio.sleep(_TICK)
        lag.see(time.thread_time() - cpu, time.monotonic() - wall - _TICK)
