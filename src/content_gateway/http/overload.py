"""Rate limit for refusals: a requestor that has had many at once gets its next ones later.

A client that retries as soon as it is refused would keep the event loop busy with thousands of
refusals a second, while all others wait. Knows requestors and time; whom to refuse is left to
fair_semaphore.py, request_turns.py and key_limits.py."""

import asyncio
import random
from typing import Final

# Refusals of a requestor that are sent at once: all of a client that comes back when it is told to.
# A hundred cost the event loop 3 ms.
BURST: Final = 128
_GAP: Final = 0.01  # seconds from one refusal of a requestor to its next, behind those
_LONGEST: Final = 1.0  # that a refusal waits for those before it; Retry-After asks for as much
_KEPT: Final = 1_000


class Refusals:
    """Delays refusals: each requestor's first ones are sent at once, then a hundred a second.

    One that would wait for more than a second is sent at a random moment of the next second, so
    that clients which were refused together do not retry together."""

    def __init__(self) -> None:
        # When each requestor's next one would be sent, had its first ones not been sent at once.
        self._next: dict[str, float] = {}

    async def wait(self, requestor: str) -> None:
        """Return when the refusal may be sent to *requestor*."""
        now = asyncio.get_running_loop().time()
        following = max(now, self._next.pop(requestor, now))
        at = following - BURST * _GAP
        if at > now + _LONGEST:
            self._next[requestor] = following
            at = now + _LONGEST * (1 + random.random())  # noqa: S311 - it is no secret
        else:
            self._next[requestor] = following + _GAP  # the latest last
        if len(self._next) > _KEPT:
            del self._next[next(iter(self._next))]
        await asyncio.sleep(max(0.0, at - now))
