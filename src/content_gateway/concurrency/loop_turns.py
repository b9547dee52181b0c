"""The event loop's turns, shared by much of one kind: so much work in each, then others'.

Starting a request or a look-up and parsing what came are each short; hundreds that are ready in
one turn would hold the loop. Knows CPU time and who waits; what is done in a turn is left to
`http_client.py`, `response_protocol.py` and `names/lookups.py`."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_TURN_SECONDS: Final = 0.005  # of CPU
# What is spent where no block of ours encloses it: aiohttp 3.14 takes 0.3 ms to begin a request,
# as much behind the head of its answer, and more where that ends in an error: thirteen of them in a
# turn took 20 ms. A look-up takes 0.2 ms until it waits.
_ONE_SECONDS: Final = 0.0008


class Turns:
    """So much work in each turn of the running loop; the rest waits in line."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_counting = False

    @property
    def is_over(self) -> bool:
        """Whether this turn of the loop's has had its share of work."""
        return self._spent >= _TURN_SECONDS

    @contextmanager
    def taking(self) -> Iterator[None]:
        """What this block takes is of this turn, and as much again: somebody reads its outcome."""
        begun = time.thread_time()
        try:
            yield
        finally:
            self._spent += 2 * (time.thread_time() - begun)
            self._count()

    def spend_on_one(self) -> None:
        """Count, of this turn, what is done for one request beside the blocks that are measured."""
        self._spent += _ONE_SECONDS
        self._count()

    async def begin_one(self) -> None:
        """Wait for the turn in which one more request may begin, behind those who wait already."""
        if self._waiting or self.is_over:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.wait(lambda: self._begin(turn))
            await turn
        else:
            self.spend_on_one()

    def _begin(self, turn: "asyncio.Future[None]") -> None:
        if not turn.done():  # whoever waited may have left
            turn.set_result(None)
            self.spend_on_one()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call *go_on* in a later turn, behind those who wait already."""
        self._waiting.append(go_on)
        self._count()

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._spent, self._is_counting = 0.0, False
        for _ in range(len(self._waiting)):
            if self.is_over:
                break
            self._waiting.popleft()()
        if self._waiting:
            self._count()
