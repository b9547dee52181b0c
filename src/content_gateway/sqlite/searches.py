"""Reads of the embedded database that may take long: beside the event loop, in turn by requestor.

Each runs in one of a few threads, on a connection of its own that is kept for the next one, and
reads of one moment. Knows how long a search may take, and that the WAL cannot begin again
while searches overlap; what is read is left to the stores, and the turns to fair_semaphore.py."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import StorageUnavailable
from content_gateway.sqlite.connection import FileOptions, connect
from content_gateway.sqlite.database_files import DatabaseFiles

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

SEARCH_SECONDS: Final = 10.0
MAX_WAITING_SEARCHES: Final = 64
_SEARCHERS: Final = 4
_BESIDE: Final = 1  # of one requestor's, beside others: each keeps a processor busy
_MOST_LOG_BYTES: Final = 256 * 1024 * 1024
_BUSY_MS: Final = 3_000
_STEPS_A_LOOK: Final = 10_000  # of SQLite's machine, between two looks at the clock


class Searches:
    """Searches of the database at *path*, which has *files*; *most_log_bytes* of what was written
    may wait to be checkpointed while they overlap."""

    def __init__(
        self,
        path: Path,
        options: FileOptions,
        files: DatabaseFiles,
        most_log_bytes: int = _MOST_LOG_BYTES,
    ) -> None:
        self._path = path
        self._options = options
        self._files = files
        self._log = path.with_name(path.name + "-wal")
        self._most_log_bytes = most_log_bytes
        self._threads = ThreadPoolExecutor(_SEARCHERS, thread_name_prefix="sqlite search")
        self._kept: list[sqlite3.Connection] = []  # nobody's now; at most one for each thread
        self._running = 0
        self._ended = asyncio.Event()
        self._door = asyncio.Lock()
        self._turns = FairSemaphore(
            _SEARCHERS,
            waiting=MAX_WAITING_SEARCHES,
            patience=SEARCH_SECONDS,
            detail="Too many searches are waiting.",
            crowd=_BESIDE,
        )

    async def run(
        self,
        job: Job[T],
        *,
        seconds: float = SEARCH_SECONDS,
        is_ours: bool = False,
        requestor: str = "",
    ) -> T:
        """What *job* returns, given a connection on which all that it reads is of one moment.

        Where the WAL has grown long they run one after the other, unless they are *ours*
        and for nobody else. Raises StorageUnavailable, also after *seconds* of searching or of
        waiting for that, and Overloaded when too many of that requestor's wait."""
        # Looked at here and not in a thread, which would wait for the interpreter after each look.
        self._files.check_turn()
        permit = self._turns.request(requestor, is_ours=is_ours)
        await permit.granted()
        try:
            if is_ours:
                running = self._begin(job, seconds)
            else:
                async with asyncio.timeout(seconds), self._door:
                    await self._until_folded()
                    running = self._begin(job, seconds)
        except TimeoutError as late:
            permit.release()
            raise StorageUnavailable("The ledger is catching up.") from late
        except BaseException:
            permit.release()
            raise
        running.add_done_callback(lambda done: self._end(permit, done))
        # Who gives up does not stop the thread, and its permit is not free before that has ended.
        result = await asyncio.shield(running)
        self._files.check_turn()
        return result

    def close(self) -> None:
        """Wait for those that run; what waits is not begun. Takes its time: not in the loop."""
        self._threads.shutdown(cancel_futures=True)
        for connection in self._kept:
            connection.close()

    async def _until_folded(self) -> None:
        """Until no other search runs, where what they read keeps a long log from being
        checkpointed."""
        while self._running and self._is_log_long():
            self._ended.clear()
            await self._ended.wait()

    def _is_log_long(self) -> bool:
        with suppress(FileNotFoundError):
            return self._log.stat().st_size > self._most_log_bytes
        return False

    def _begin(self, job: Job[T], seconds: float) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, self._search, job, seconds)
        self._running += 1
        return running

    def _end(self, permit: Permit, done: asyncio.Future[T]) -> None:
        self._running -= 1
        self._ended.set()
        permit.release()
        if not done.cancelled():
            done.exception()  # seen, even if nobody waits any more

    def _search(self, job: Job[T], seconds: float) -> T:
        end = time.monotonic() + seconds
        try:
            connection = self._taken()
            try:
                connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_A_LOOK)
                connection.execute("BEGIN")  # all that *job* reads is of one moment
                result = job(connection)
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            self._kept.append(connection)
            return result
        except sqlite3.Error as wrong:
            if time.monotonic() > end:
                raise StorageUnavailable("The search takes too long.") from wrong
            self._files.check()  # which may be why
            raise self._files.refusal(wrong, "read") from wrong

    def _taken(self) -> sqlite3.Connection:
        """A connection that nobody uses. To make one takes a dozen statements, after each of which
        a thread waits for the interpreter."""
        try:
            return self._kept.pop()
        except IndexError:
            return connect(self._path, self._options, busy_ms=_BUSY_MS, reads_only=True)
