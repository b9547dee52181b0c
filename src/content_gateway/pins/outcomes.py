"""Lets callers wait for the first status of a content.

At most a few callers wait at a time, and only statuses recorded by this process wake them. The
status itself is read from the ledger by the caller."""

import asyncio
from typing import Final

from content_gateway.model.cid import Cid

# A client that waits for an answer sends no further pin meanwhile. So only a few may wait, and the
# others are answered at once.
MOST_WAITING: Final = 4


class Waiters:
    """The waiting callers by content, at most *limit* at a time."""

    def __init__(self, limit: int = MOST_WAITING) -> None:
        self._free = limit
        self._waiting: dict[Cid, set[asyncio.Future[None]]] = {}

    async def first(self, cid: Cid, seconds: float) -> bool:
        """As `Reconciler.first_outcome`; False at once if *limit* callers wait already."""
        if not self._free:
            return False
        self._free -= 1
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(cid, set())
        waiting.add(future)
        try:
            await asyncio.wait([future], timeout=seconds)
            return future.done()
        finally:
            self._free += 1
            waiting.discard(future)
            if not waiting and self._waiting.get(cid) is waiting:
                del self._waiting[cid]

    def record_answer(self, cid: Cid) -> None:
        """A status of *cid* was recorded: wake its callers."""
        for future in self._waiting.pop(cid, ()):
            if not future.done():
                future.set_result(None)
