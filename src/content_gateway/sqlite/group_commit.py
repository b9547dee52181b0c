"""One thread that writes for a whole process: what waits is committed together, then answered.

Knows threads, the queue between them and the event loop, who waits for which write, and how SQLite
takes a group back. Writes come into a group in turn by requestor (fair_semaphore.py), so that
nobody's flood delays another's. What a commit is, and which of its writes fail, is left to whoever
owns the database."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore

log = structlog.get_logger(__name__)


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that has failed, if it has not ended by itself."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as wrong:
        log.error("a transaction was not rolled back", reason=str(wrong))


@dataclass(slots=True)
class Write:
    """One queued write: the *job* and what it comes to; *note* is for whoever commits it, and it is
    charged to the *requestor*."""

    job: Callable[..., Any]
    note: Any
    future: asyncio.Future[Any]
    requestor: str
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        """Hand the outcome to whoever still waits; on the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class GroupWriter:
    """The writer thread called *name*, between `start` and `close`, which one event loop calls.

    *commit* is called in the thread, with up to *group* writes at a time, and whether one of them
    waited for the commit before; it gives each of them a result or an error, and raises nothing.
    Where several write at once, *gather* seconds pass between two commits. No more than *limit*
    writes of one requestor wait. What one requestor has in a group while others write too is
    bounded by *crowd*: so the group is soon committed."""

    def __init__(
        self,
        commit: Callable[[Sequence[Write], bool], None],
        *,
        name: str,
        limit: int,
        group: int,
        gather: float = 0.0,
        crowd: int = 8,
    ) -> None:
        self._commit = commit
        self._turns = FairSemaphore(
            group * 3 // 2,  # who is alone gets two thirds: a whole group
            waiting=limit * 3 // 2,
            detail="Too many writes are waiting.",
            crowd=crowd,
        )
        self._group: Final = group
        self._gather: Final = gather
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._unanswered = 0
        self._all_answered = asyncio.Event()
        self._is_over = False

    def start(self) -> None:
        """Begin to write, for the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """End the thread, once it has written all that waits."""
        self._is_over = True
        if self._unanswered:
            self._all_answered.clear()
            await self._all_answered.wait()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    @property
    def is_busy(self) -> bool:
        """Whether writes wait or are under way."""
        return self._unanswered > 0

    @property
    def is_over(self) -> bool:
        """Whether no more writes are taken."""
        return self._is_over

    @property
    def is_full(self) -> bool:
        """Whether as many writes wait as may of those that are the service's own, or none may any
        more."""
        return self._is_over or not self._turns.has_room("")

    def put(
        self, job: Callable[..., Any], note: object = None, requestor: str = ""
    ) -> asyncio.Future[Any]:
        """What *job* comes to, once it is committed. A caller who is cancelled does not stop it.

        It is charged to *requestor*, and to the service itself where that is empty. Raises
        Overloaded when too many of a requestor's wait."""
        write = Write(job, note, self._loop.create_future(), requestor)
        if self._turns.take(requestor, is_ours=not requestor):
            self._queue.put(write)
        else:
            permit = self._turns.request(requestor, is_ours=not requestor)
            permit.then(partial(self._queue.put, write))
        self._unanswered += 1
        return write.future

    def _run(self) -> None:
        """The thread: gather, commit, answer, until None arrives."""
        running, last, follows = True, 0, False
        while running:
            group: list[Write] = []
            write = self._queue.get()
            if last > 1 and self._gather:
                # Many write: a moment later there are more of them for the same sync.
                time.sleep(self._gather)
            while write is not None:
                group.append(write)
                if len(group) >= self._group or self._queue.empty():
                    break
                write = self._queue.get()
            running, last = write is not None, len(group)
            if group:
                self._commit_or_fail(group, follows)
                follows = not self._queue.empty()  # before anybody hears of these
                self._answer(group)

    def _commit_or_fail(self, group: Sequence[Write], follows: bool) -> None:
        """Whatever happens in it, the thread goes on: else all that comes would wait for ever."""
        try:
            self._commit(group, follows)
        except Exception as bug:
            log.exception("writes failed, by a fault of ours", number=len(group))
            for write in group:
                write.error = bug

    def _answer(self, group: Sequence[Write]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._record, group)
        except RuntimeError:
            log.warning("writes were committed after their loop had closed", number=len(group))

    def _record(self, group: Sequence[Write]) -> None:
        self._unanswered -= len(group)
        for write in group:  # first, so that the thread has work while these are answered
            self._turns.give_back(write.requestor)
        for write in group:
            write.answer()
        if not self._unanswered:
            self._all_answered.set()
