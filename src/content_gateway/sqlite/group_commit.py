"""Group commit: one thread commits together all writes that wait, then answers each of them.

Knows the thread, and the queue between it and the event loop. Who waits for which write, and in
whose turn, is left to concurrency/write_queue.py; what a commit is, and which of its writes fail,
to the database."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from content_gateway.concurrency.write_queue import Write, WriteQueue

log = structlog.get_logger(__name__)


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back a failed transaction, unless SQLite has done so itself (a full disk, for one)."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error as wrong:
        log.error("a transaction was not rolled back", reason=str(wrong))


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
        self._commit = commit
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._writes = WriteQueue(self._hand_over, limit=limit, group=group, crowd=crowd)
        self.sizes, self.seconds = self._writes.sizes, self._writes.seconds
        self._group: Final = group
        self._gather: Final = gather
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._last, self._follows = 0, False  # of the group before: its size, and what waited

    def start(self) -> None:
        """Start the thread, for the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self) -> None:
        """Commit what waits, then end the thread."""
        await self._writes.close()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    @property
    def is_busy(self) -> bool:
        """Whether writes wait or are under way."""
        return self._writes.unanswered > 0

    @property
    def unanswered(self) -> int:
        """How many writes wait or are under way."""
        return self._writes.unanswered

    @property
    def is_over(self) -> bool:
        """Whether it was closed."""
        return self._writes.is_over

    def put(
        self, job: Callable[..., Any], note: object = None, requestor: str = ""
    ) -> asyncio.Future[Any]:
        """As `WriteQueue.put`."""
        return self._writes.put(self._loop, job, note, requestor)

    def _hand_over(self, write: Write) -> None:
        self._queue.put(write)

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
            self._loop.call_soon_threadsafe(self._writes.answer, group)
        except RuntimeError:
            log.warning("writes were committed after their loop had closed", number=len(group))
