"""Who waits for the first word about a content is told when there is one.

Knows that a caller may go away before, that few may wait at a time, and that only what this
process has observed is told. What the word is, is read from the ledger by whoever waited."""

import asyncio
from typing import Final

from content_gateway.model.cid import Cid

# A caller that waits asks for nothing else meanwhile: were all to wait, so would their next pins.
MOST_WAITING: Final = 4


class Outcomes:
    """The callers that wait, by content; at most *limit* of them at a time."""

    def __init__(self, limit: int = MOST_WAITING) -> None:
        self._free = limit
        self._waiting: dict[Cid, set[asyncio.Future[None]]] = {}

    async def first(self, cid: Cid, seconds: float) -> bool:
        """Whether something was observed of *cid* since the call, within *seconds*.

        False at once where as many callers wait as may."""
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
        """Something was observed of *cid*, and is in the ledger."""
        for future in self._waiting.pop(cid, ()):
            if not future.done():
                future.set_result(None)
