"""Long reads of a SQLite file: in threads beside the event loop, in turn by requestor.

Each search reads one snapshot, on a connection that is reused. Knows how long a search may take,
and that the WAL cannot restart while searches overlap. Turns are left to fair_semaphore.py."""

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
_PER_REQUESTOR: Final = 1  # while others search too: each search keeps a processor busy
_MAX_WAL_BYTES: Final = 256 * 1024 * 1024
_BUSY_MS: Final = 3_000
_STEPS_PER_CHECK: Final = 10_000  # of SQLite's virtual machine, between two checks of the clock


class Searches:
    """Searches of the database at *path*. They may overlap while its WAL has *max_wal_bytes*."""

    def __init__(
        self,
        path: Path,
        options: FileOptions,
        files: DatabaseFiles,
        max_wal_bytes: int = _MAX_WAL_BYTES,
    ) -> None:
        self._path = path
        self._options = options
        self._files = files
        self._wal = path.with_name(path.name + "-wal")
        self._max_wal_bytes = max_wal_bytes
        self._threads = ThreadPoolExecutor(_SEARCHERS, thread_name_prefix="sqlite search")
        self._idle: list[sqlite3.Connection] = []  # at most one for each thread
        self._running = 0
        self._ended = asyncio.Event()
        self._one_begins = asyncio.Lock()
        self._turns = FairSemaphore(
            _SEARCHERS,
            waiting=MAX_WAITING_SEARCHES,
            patience=SEARCH_SECONDS,
            detail="Too many searches are waiting.",
            crowd=_PER_REQUESTOR,
        )

    async def run(
        self,
        job: Job[T],
        *,
        seconds: float = SEARCH_SECONDS,
        is_ours: bool = False,
        requestor: str = "",
    ) -> T:
        """What *job* returns, given a connection on which it reads one snapshot in a thread.

        Where the WAL has grown long searches run one after the other, unless the search *is_ours*,
        the service's own. Raises StorageUnavailable, also after *seconds* of searching or of
        waiting for other searches, and Overloaded when too many of that requestor's wait."""
        # Here and not in the thread, which would wait for the interpreter after each system call.
        self._files.check_turn()
        permit = self._turns.request(requestor, is_ours=is_ours)
        await permit.granted()
        try:
            if is_ours:
                running = self._begin(job, seconds)
            else:
                async with asyncio.timeout(seconds), self._one_begins:
                    await self._until_alone()
                    running = self._begin(job, seconds)
        except TimeoutError as late:
            permit.release()
            raise StorageUnavailable("The ledger is catching up.") from late
        except BaseException:
            permit.release()
            raise
        running.add_done_callback(lambda done: self._end(permit, done))
        # A caller who is cancelled does not stop the thread, which keeps the permit until it ends.
        result = await asyncio.shield(running)
        self._files.check_turn()
        return result

    def close(self) -> None:
        """Wait for those that run, and drop those that wait. Blocks: not for the event loop."""
        self._threads.shutdown(cancel_futures=True)
        for connection in self._idle:
            connection.close()

    async def _until_alone(self) -> None:
        """Where the WAL is long, wait until no search runs: SQLite restarts the WAL only while
        nobody reads from it, and searches that overlap would never let that happen."""
        while self._running and self._is_wal_long():
            self._ended.clear()
            await self._ended.wait()

    def _is_wal_long(self) -> bool:
        with suppress(FileNotFoundError):
            return self._wal.stat().st_size > self._max_wal_bytes
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
            done.exception()  # retrieved, so that asyncio does not report it if nobody waits

    def _search(self, job: Job[T], seconds: float) -> T:
        end = time.monotonic() + seconds
        try:
            connection = self._connect()
            try:
                connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)
                connection.execute("BEGIN")  # *job* reads one snapshot
                result = job(connection)
                connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            return result
        except sqlite3.Error as wrong:
            if time.monotonic() > end:
                raise StorageUnavailable("The search takes too long.") from wrong
            raise self._files.unreadable(wrong) from wrong

    def _connect(self) -> sqlite3.Connection:
        """An idle connection, else a new one, which takes a dozen statements to open."""
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self._path, self._options, busy_ms=_BUSY_MS, reads_only=True)
