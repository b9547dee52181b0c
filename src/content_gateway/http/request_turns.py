"""The event loop's turns: in each so many requests begin, round robin by requestor.

All requests share one event loop, which would take what is ready first come first served: somebody
with a thousand connections has a thousand requests ready at once, and another's one waits behind
them all, however little each costs. So a request begins in this turn of the loop or waits for one
of the next, as soon as it is known whose it is. Knows how the loop turns, and nothing of what a
request does; what is held for longer than a turn is shared by fair_semaphore.py, whose permits
would cost a fifth of a cheap request here."""

import asyncio
import gc
import sys
from collections import deque
from typing import Final

from content_gateway.concurrency.fair_semaphore import ALONE_AFTER

_ALONE: Final = 32
_BESIDE: Final = 2
# How long a thread that wants the interpreter waits until it is asked back. With Python's own 5 ms
# a write or a search, which needs it a dozen times, takes 50 ms longer beside a busy event loop;
# with 0.5 ms a tenth of the time goes into changing places.
_SWITCH_ALONE: Final = 0.005
_SWITCH_BESIDE: Final = 0.0005
# Python looks for garbage once so many objects more were made than freed. Where a thousand requests
# come as a thousand others leave it makes no difference between old ones and new, and at last looks
# at 75,000 new ones at once, for 50 ms. So beside others we look, after so many requests, how many
# are new; it takes three per cent of a new pin's time.
_LOOK_AFTER: Final = 64
_MANY_NEW: Final = 5_000


class RequestTurns:
    """At most *beside* requests begin in a turn, of all requestors in turn, and one of each that
    has none yet; *alone* once ALONE_AFTER has passed since two of them asked.

    A turn is counted as over only behind one in which so many have begun: to have the loop tell the
    end of each would cost as much as all the rest here."""

    def __init__(self, *, alone: int = _ALONE, beside: int = _BESIDE) -> None:
        self._alone, self._beside = alone, beside
        self._left = alone  # that may still begin in this turn; where none, its end is told
        self._had: set[str] = set()  # who has begun one in it, or waits
        self._last = ""
        self._crowded_until = 0.0  # by the loop's clock; 0: who asked last is alone
        self._unseen = 0  # requests beside others since the last look at what is new
        # By requestor, the one whose turn it is first; each queue has the oldest request first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def try_begin(self, requestor: str) -> bool:
        """Whether a request of *requestor* may begin at once, counted then; else `wait`.

        For most requests this is all that fairness costs."""
        if requestor != self._last:
            self._note(requestor)
        if self._crowded_until:
            self._unseen += 1
            if self._unseen >= _LOOK_AFTER:
                self._unseen = 0
                _collect_new()
        if (self._waiting or self._left <= 0) and requestor in self._had:
            return False
        self._had.add(requestor)
        self._left -= 1
        if not self._left:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        return True

    async def wait(self, requestor: str) -> None:
        """Return once a request of *requestor* that could not begin at once may."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(requestor, deque()).append(mine)
        await mine

    def _note(self, requestor: str) -> None:
        """Another asks than the one before."""
        if self._last:
            if not self._crowded_until:
                sys.setswitchinterval(_SWITCH_BESIDE)
            self._crowded_until = asyncio.get_running_loop().time() + ALONE_AFTER
            self._left = min(self._left, self._beside)
        self._last = requestor

    def _is_crowded(self) -> bool:
        if self._crowded_until and asyncio.get_running_loop().time() >= self._crowded_until:
            self._crowded_until = 0.0
            sys.setswitchinterval(_SWITCH_ALONE)
        return self._crowded_until > 0

    def _begin_turn(self) -> None:
        """As many may begin as in every turn, those who wait first."""
        waiting = self._waiting
        self._had = set(waiting)
        left = self._beside if self._is_crowded() else self._alone
        while left > 0 and waiting:
            requestor = next(iter(waiting))
            queue = waiting.pop(requestor)
            request = queue.popleft()
            if queue:
                waiting[requestor] = queue  # behind the others
            if not request.done():  # as it is where nobody waits for it any more
                request.set_result(None)
                left -= 1
        self._left = left
        if not left:
            asyncio.get_running_loop().call_soon(self._begin_turn)


def _collect_new() -> None:
    """Take garbage away before what is new becomes much; what is none is old from then on."""
    if len(gc.get_objects(generation=0)) > _MANY_NEW:
        gc.collect(generation=1)
