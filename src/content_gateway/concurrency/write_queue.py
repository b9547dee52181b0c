"""Writes that wait to be committed in groups: who waits for which, and in whose turn.

Writes enter a group in turn by requestor (fair_semaphore.py), so that one's flood does not delay
another's. Knows how many are unanswered, and the sizes and seconds of the groups so far. Gathering
a group, and committing it, is left to each database."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.telemetry.numbers import Histogram

_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(slots=True)
class Write:
    """A queued write: the *job*, its outcome, who is charged, and a *note* for the committer."""

    job: Callable[..., Any]
    note: Any
    future: asyncio.Future[Any]
    requestor: str
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        """Hand the outcome to the caller, unless cancelled; on the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class WriteQueue:
    """The writes of one event loop, handed over to whoever gathers groups of up to *group*.

    At most *limit* writes of one requestor wait, and *crowd* of them are handed over while others
    write too, so that the group is soon committed. *hand_over* is called with each in its turn."""

    def __init__(
        self, hand_over: Callable[[Write], None], *, limit: int, group: int, crowd: int
    ) -> None:
        self.sizes = Histogram(_SIZES)
        self.seconds = Histogram()
        self._hand_over = hand_over
        self._turns = FairSemaphore(
            group * 3 // 2,  # a requestor alone gets two thirds: a whole group
            waiting=limit * 3 // 2,
            detail="Too many writes are waiting.",
            crowd=crowd,
        )
        self._unanswered = 0
        self._all_answered = asyncio.Event()
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether it was closed."""
        return self._is_over

    @property
    def unanswered(self) -> int:
        """How many writes wait or are under way."""
        return self._unanswered

    def put(
        self,
        loop: asyncio.AbstractEventLoop,
        job: Callable[..., Any],
        note: object = None,
        requestor: str = "",
    ) -> asyncio.Future[Any]:
        """The outcome of *job*, once it is committed. A caller who is cancelled does not stop it.

        It is charged to *requestor*; the service's own writes, where that is empty, are never
        refused. Raises Overloaded when too many of a requestor's wait."""
        write = Write(job, note, loop.create_future(), requestor)
        if self._turns.take(requestor, is_ours=not requestor):
            self._hand_over(write)
        else:
            permit = self._turns.request(requestor, is_ours=not requestor)
            permit.then(partial(self._hand_over, write))
        self._unanswered += 1
        return write.future

    def answer(self, group: Sequence[Write]) -> None:
        """Answer a *group* whose writes have their outcomes; on the event loop."""
        self._unanswered -= len(group)
        for write in group:  # first: there is work again while these are answered
            self._turns.give_back(write.requestor)
        for write in group:
            write.answer()
        if not self._unanswered:
            self._all_answered.set()

    async def close(self) -> None:
        """Take no more, and return once all are answered."""
        self._is_over = True
        if self._unanswered:
            self._all_answered.clear()
            await self._all_answered.wait()
