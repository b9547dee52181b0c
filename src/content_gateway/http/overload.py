"""Refusals for overload, told at a pace: who asks again at once gets the next one a little later.

A client that asks again as soon as it is refused would keep the event loop busy with saying no,
thousands of times a second, and everybody else waiting. Knows requestors and the time, and nothing
of what was refused; what there is too much of is said by whoever refuses (fair_semaphore.py)."""

import asyncio
import random
from typing import Final

_GAP: Final = 0.01  # seconds from one refusal of a requestor to its next
_LONGEST: Final = 1.0  # that a refusal waits for those before it; Retry-After asks for as much
_KEPT: Final = 1_000


class Refusals:
    """The first refusal of a requestor is told at once, and a hundred a second while it goes on;
    more where there are so many that one would wait for more than a second, and then at any moment
    of the next: or all that were refused together would ask again together."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # when each requestor's next one is told

    async def wait(self, requestor: str) -> None:
        """Return when *requestor* is to be told of its refusal."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next.pop(requestor, now))
        if at > now + _LONGEST:
            self._next[requestor] = at
            at = now + _LONGEST * (1 + random.random())  # noqa: S311 - it is no secret
        else:
            self._next[requestor] = at + _GAP  # the latest last
        if len(self._next) > _KEPT:
            del self._next[next(iter(self._next))]
        await asyncio.sleep(at - now)
