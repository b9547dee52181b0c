"""Fair access to the event loop: in each turn a few requests begin, round robin by requestor.

All requests share one event loop, which runs what is ready first come, first served: whoever has a
thousand connections has a thousand requests ready at once, and another client's one waits behind
them all, however little each costs. So a request begins in this turn of the loop, or waits for a
later one, as soon as its requestor is known. What is held for longer than a turn is shared by
fair_semaphore.py; its permits would cost a fifth of a cheap request here.

What cannot be begun soon is refused at once. A number waits at most, by the rule of
fair_semaphore.py: a requestor may have another one wait while it has less than twice what is free,
so that one's flood leaves room for all. While the loop itself is late nobody waits: whoever has
begun a request in this turn is refused."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from content_gateway.concurrency.contention import Contention
from content_gateway.concurrency.garbage_collection import collect_if_many_new
from content_gateway.errors import Overloaded

# That wait at most: about a second's work of this service.
WAITING: Final = 16_384
_FACTOR: Final = 2
_ALONE: Final = 32
_BESIDE: Final = 2
# How long a thread that wants the interpreter waits until it asks for it (sys.setswitchinterval).
# With Python's own 5 ms a write or a search, which needs it a dozen times, takes 50 ms longer
# beside a busy event loop; with 0.5 ms a tenth of the time goes into switching threads.
_SWITCH_ALONE: Final = 0.005
_SWITCH_BESIDE: Final = 0.0005
# Requests in contention between two checks for many new objects: 3 % of the time of a new pin.
_REQUESTS_PER_CHECK: Final = 64


class RequestTurns:
    """Lets at most *alone* requests begin in a turn of the loop, or *beside* of them while several
    requestors compete; one request of each requestor that has begun none in it begins always."""

    def __init__(
        self,
        *,
        alone: int = _ALONE,
        beside: int = _BESIDE,
        waiting: int = WAITING,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        """*waiting* is how many may wait, while the loop *is_late* none."""
        self._room = waiting
        self._is_late = is_late
        self._alone, self._beside = alone, beside
        self._left = alone  # that may still begin in this turn
        self._has_begun = False  # any, in this turn
        self._served: set[str] = set()  # requestors that have begun one in this turn, or wait
        self._contention = Contention()
        self._unchecked = 0  # requests in contention since the last check for new objects
        # By requestor, the next to be served first; each queue has the oldest request first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def try_begin(self, requestor: str) -> bool:
        """Whether a request of *requestor* may begin now, which then counts; if not, call `wait`.

        For most requests this call is all that fairness costs."""
        contention = self._contention
        if requestor != contention.last:
            self._note(requestor)
        if contention.until:
            self._unchecked += 1
            if self._unchecked >= _REQUESTS_PER_CHECK:
                self._unchecked = 0
                collect_if_many_new()
        if (self._waiting or self._left <= 0) and requestor in self._served:
            return False
        self._served.add(requestor)
        self._left -= 1
        if not self._has_begun:
            self._has_begun = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        return True

    async def wait(self, requestor: str) -> None:
        """Return once a request of *requestor* may begin, after `try_begin` was False.

        Raises Overloaded where it may not even wait."""
        queue = self._waiting.get(requestor, ())
        if self._is_late() or len(queue) >= _FACTOR * (self._room - 1):
            raise Overloaded("More requests are waiting here than can be answered soon.")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(requestor, deque()).append(turn)
        self._room -= 1
        await turn

    def _note(self, requestor: str) -> None:
        """Another requestor than the last one asks."""
        contention = self._contention
        was_alone = not contention.until
        contention.note(requestor)
        if contention.until:
            if was_alone:
                sys.setswitchinterval(_SWITCH_BESIDE)
            self._left = min(self._left, self._beside)

    def _per_turn(self) -> int:
        """How many requests may begin in a turn."""
        contention = self._contention
        if contention.until:
            if not contention.is_over():
                return self._beside
            sys.setswitchinterval(_SWITCH_ALONE)
        return self._alone

    def _begin_turn(self) -> None:
        """Begin a turn with those who wait."""
        waiting = self._waiting
        self._served = set(waiting)
        left = most = self._per_turn()
        while left > 0 and waiting:
            requestor = next(iter(waiting))
            queue = waiting.pop(requestor)
            turn = queue.popleft()
            self._room += 1
            if queue:
                waiting[requestor] = queue  # round robin: behind the other requestors
            if not turn.done():  # done: its request was cancelled
                turn.set_result(None)
                left -= 1
        self._has_begun = left < most
        self._left = left
        if self._has_begun:
            asyncio.get_running_loop().call_soon(self._begin_turn)
