"""The event loop's turns: in each so many requests begin, fairly by requestor.

All requests share one event loop, which would take what is ready first come first served: somebody
with a thousand connections has a thousand requests ready at once, and another's one waits behind
them all, however little each costs. So a request waits here, as soon as it is known whose it is,
for one of the permits that there are in each turn of the loop. While others ask too nobody has
more than a few, and a turn is short; alone, more than most clients have connections. Knows how
the loop turns; what is fair is left to fairness.py."""

import asyncio
from typing import Final

from content_gateway.fairness import FairSemaphore, Permit

_ALONE: Final = 64
_OVER: Final = 12  # of which one has eight
_BESIDE: Final = 2
_ALONE_AFTER: Final = 10.0  # seconds; somebody who asks now and then is there too
_WAITING: Final = 3_000_000  # a request has a connection, and these are bounded


class Turns:
    """At most *beside* requests of one requestor begin in a turn while others ask too; while it is
    alone, *alone*, but a few where it always has more than that ready."""

    def __init__(self, *, alone: int = _ALONE, beside: int = _BESIDE) -> None:
        self._most = self._left = alone
        self._permits = FairSemaphore(
            _OVER,
            waiting=_WAITING,
            detail="Too many requests are waiting.",
            crowd=beside,
            alone_after=_ALONE_AFTER,
        )
        self._begun: list[Permit] = []
        self._only: str | None = None  # the requestor that is alone, as far as we know

    def begins(self, requestor: str) -> bool:
        """Whether a request of *requestor* may begin at once, counted then; else `take` its turn.

        For most requests this is all that fairness costs."""
        left = self._left
        if requestor != self._only or not left or self._permits.is_awaited:
            return False
        if left == self._most:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left = left - 1
        return True

    async def take(self, requestor: str) -> None:
        """Return once a request of *requestor* may begin."""
        permit = self._permits.request(requestor)
        self._only = None if self._permits.is_crowded else requestor
        if permit.holder is None:
            await _given(permit)
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._end)
        self._begun.append(permit)

    def _renew(self) -> None:
        self._left = self._most

    def _end(self) -> None:
        """The turn is over: as many may begin in the next one."""
        begun, self._begun = self._begun, []
        for permit in begun:
            permit.release()


async def _given(permit: Permit) -> None:
    """Wait for *permit*; who is cancelled gives it back."""
    woken = asyncio.get_running_loop().create_future()
    permit.then(lambda: None if woken.done() else woken.set_result(None))
    try:
        await woken
    except asyncio.CancelledError:
        permit.release()
        raise
