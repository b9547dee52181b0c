"""An event loop on a virtual clock: sleeping takes no time, and every run is the same.

Where nothing is ready the clock jumps to the next timer. For code that waits for timers and
futures only; nothing from outside ever arrives here."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nobody: the time that it was given has passed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everything waits, and no timer is set"
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time` is virtual, in seconds from 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def stand_still(self, seconds: float) -> None:
        """Let *seconds* pass in which nothing can run."""
        self._jumping.now += seconds


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """What *work* comes to, on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
