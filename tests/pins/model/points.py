"""Named points in a process, and what happens when it passes one: it dies, or the world moves on.

A process passes a point before and after every call of a port. Knows nothing of pins: which ports
there are is said in process.py, and what happens there by whoever arms a point."""

from collections import Counter
from collections.abc import Awaitable, Callable

Deed = Callable[[], Awaitable[object]]


class Crashed(BaseException):
    """The process is dead. Not an Exception, so that nothing in it can go on."""


class Deeds:
    """What was done at points, in all processes: one thing at a time, *number* in all."""

    def __init__(self) -> None:
        self.number = 0
        self.is_busy = False

    async def do(self, deed: Deed) -> None:
        """Do it, unless something is being done: what two do at once has no order to check."""
        if self.is_busy:
            return
        self.is_busy, self.number = True, self.number + 1
        try:
            await deed()
        finally:
            self.is_busy = False


class Points:
    """The points of one process; *passed* and *crashed* count them, over all processes.

    Once dead, it can reach nothing and nobody: every further point ends in Crashed."""

    def __init__(self, deeds: Deeds, passed: Counter[str], crashed: Counter[str]) -> None:
        self.is_dead = False
        self.deeds = deeds
        self._passed = passed
        self._crashed = crashed
        self._armed: dict[str, tuple[int, Deed | None]] = {}

    def arm(self, point: str, passages: int, deed: Deed | None) -> None:
        """At that passage of *point*, once: do *deed*, or die where it is None."""
        self._armed[point] = (passages, deed)

    def disarm(self) -> None:
        """From now on nothing happens."""
        self._armed.clear()

    async def passing(self, point: str) -> None:
        """Called by the process; raises Crashed where it dies."""
        self.check()
        self._passed[point] += 1
        passages, deed = self._armed.get(point, (0, None))
        if passages > 1:
            self._armed[point] = (passages - 1, deed)
        elif passages == 1:
            del self._armed[point]
            if deed is None:
                self._crashed[point] += 1
                self.is_dead = True
            else:
                await self.deeds.do(deed)
        self.check()

    def check(self) -> None:
        """Raises Crashed if the process is dead."""
        if self.is_dead:
            raise Crashed
