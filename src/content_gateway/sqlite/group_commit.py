"""Group commit: one thread commits together all writes that wait, then answers each of them.

Knows the thread, the queue between it and the event loop, and who waits for which write. Writes
enter a group in turn by requestor (concurrency/fair_semaphore.py), so that one's flood does not
delay another's. What a commit is, and which of its writes fail, is left to the database."""

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
from content_gateway.telemetry.numbers import Histogram

_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)

log = structlog.get_logger(__name__)


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back a failed transaction, unless SQLite has done so itself (a full disk, for one)."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as wrong:
        log.error("a transaction was not rolled back", reason=str(wrong))


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


class GroupWriter:
    """The writer thread called *name*, between `start` and `close`, for one event loop.

    *commit* is called in the thread with up to *group* writes, and whether one of them waited while
    the group before was committed; it gives each write a result or an error, and raises nothing.
    Where several write at once the thread waits *gather* seconds for more of them. At most *limit*
    writes of one requestor wait, and *crowd* of them are in a group while others write too, so that
    the group is soon committed. *sizes* and *seconds* are those of the groups so far."""

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
        self.sizes = Histogram(_SIZES)
        self.seconds = Histogram()
        self._commit = commit
        self._turns = FairSemaphore(
            group * 3 // 2,  # a requestor alone gets two thirds: a whole group
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
        self._last, self._follows = 0, False  # of the group before: its size, and what waited
        self._all_answered = asyncio.Event()
        self._is_over = False

    def start(self) -> None:
        """Start the thread, for the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Commit what waits, then end the thread."""
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
    def unanswered(self) -> int:
        """How many writes wait or are under way."""
        return self._unanswered

    @property
    def is_over(self) -> bool:
        """Whether it was closed."""
        return self._is_over

    def put(
        self, job: Callable[..., Any], note: object = None, requestor: str = ""
    ) -> asyncio.Future[Any]:
        """The outcome of *job*, once it is committed. A caller who is cancelled does not stop it.

        It is charged to *requestor*; the service's own writes, where that is empty, are never
        refused. Raises Overloaded when too many of a requestor's wait."""
        write = Write(job, note, self._loop.create_future(), requestor)
        if self._turns.take(requestor, is_ours=not requestor):
            self._queue.put(write)
        else:
            permit = self._turns.request(requestor, is_ours=not requestor)
            permit.then(partial(self._queue.put, write))
        self._unanswered += 1
        return write.future

    def _run(self) -> None:
        """The thread's loop, until None arrives."""
        while self._serve(self._queue.get()):
            pass

    def _serve(self, write: Write | None) -> bool:
        """Gather a group that begins with *write*, commit it and answer it; False after None.

        Waits for nobody, so a simulation runs it on its loop where a write has come."""
        group: list[Write] = []
        if self._last > 1 and self._gather:
            # Under load a short wait fills the group, and syncs to disk are what costs.
            time.sleep(self._gather)
        while write is not None:
            group.append(write)
            if len(group) >= self._group or self._queue.empty():
                break
            write = self._queue.get()
        self._last = len(group)
        if group:
            self._commit_or_fail(group, self._follows)
            # Before these are answered: what waits now was asked for before the commit ended.
            self._follows = not self._queue.empty()
            self._answer(group)
        return write is not None

    def _commit_or_fail(self, group: Sequence[Write], follows: bool) -> None:
        """Commit; the thread survives any error, else all later writes would wait for ever."""
        begun = time.perf_counter()
        try:
            self._commit(group, follows)
        except Exception as bug:
            log.exception("writes failed, by a fault of ours", number=len(group))
            for write in group:
                write.error = bug
        self.sizes.observe(len(group))
        self.seconds.observe(time.perf_counter() - begun)

    def _answer(self, group: Sequence[Write]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._record, group)
        except RuntimeError:
            log.warning("writes were committed after their loop had closed", number=len(group))

    def _record(self, group: Sequence[Write]) -> None:
        self._unanswered -= len(group)
        for write in group:  # first: the thread then has work while these are answered
            self._turns.give_back(write.requestor)
        for write in group:
            write.answer()
        if not self._unanswered:
            self._all_answered.set()
