"""The embedded database: SQLite with one writer thread and group commit.

All writes of the process queue for one thread, which runs what has gathered in one transaction
and syncs it to disk once (WAL, synchronous=FULL); a write is answered after that sync, never
before. Knows nothing of tables: what is written and read is left to the stores beside it."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

import structlog

from content_gateway.errors import GatewayError, StorageUnavailable, WrongSettings
from content_gateway.sqlite.checkpointer import Checkpointer
from content_gateway.sqlite.connection import connect, migrate
from content_gateway.sqlite.database_files import DatabaseFiles
from content_gateway.sqlite.group_commit import GroupWriter, Write, roll_back
from content_gateway.sqlite.searches import SEARCH_SECONDS, Searches

T = TypeVar("T")
Item = TypeVar("Item")

MAX_QUEUED_WRITES: Final = 10_000
MAX_GROUP: Final = 256
_GATHER_SECONDS: Final = 0.0005
_WRITER_BUSY_MS: Final = 3_000
_READER_BUSY_MS: Final = 50  # reads run on the event loop: they must not wait
_WRITER_CACHE_KIB: Final = 32 * 1024

_ALONE: Final = object()

log = structlog.get_logger(__name__)


class Database:
    """One SQLite file, opened on entering; brings its tables up to date first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writes = GroupWriter(
            self._commit,
            name="sqlite writer",
            limit=MAX_QUEUED_WRITES,
            group=MAX_GROUP,
            gather=_GATHER_SECONDS,
        )
        self._writer: sqlite3.Connection
        self._reader: sqlite3.Connection
        self._files = DatabaseFiles(path, "ledger")
        self._checkpointer = Checkpointer(path, self._files)
        self._watch: asyncio.Task[None]
        self._searches = Searches(path, self._files)

    async def __aenter__(self) -> Self:
        """Raises WrongSettings when the file cannot be made or is not ours."""
        try:
            self._files.prepare()
            self._writer = connect(self._path, _WRITER_BUSY_MS)
            migrate(self._writer)
            # Or a statement of many rows keeps what it might take back in files.
            self._writer.execute("PRAGMA temp_store = MEMORY")
            self._writer.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
            self._reader = connect(self._path, _READER_BUSY_MS)
            self._files.opened()
            self._checkpointer.start()
        except (OSError, sqlite3.Error) as wrong:
            raise WrongSettings(f"data_dir: {self._path} cannot be used: {wrong}") from wrong
        self._writes.start()
        self._watch = asyncio.create_task(self._files.watch(), name="ledger files")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._writes.close()
        await asyncio.to_thread(self._checkpointer.close)
        await asyncio.to_thread(self._searches.close)
        self._reader.close()
        await asyncio.to_thread(
            self._writer.close
        )  # checkpoints the WAL if nobody else has it open
        self._files.close()

    async def write(self, job: Callable[[sqlite3.Connection], T], *, requestor: str = "") -> T:
        """What *job* returns, once its changes are durable. It may run more than once.

        It waits in the turn of *requestor*, that of the service itself where that is empty.
        Raises StorageUnavailable when they are not durable; then nothing of them is kept.
        Raises Overloaded when too many of that requestor's wait."""
        return cast(T, await self._queued(job, _ALONE, requestor))

    async def write_together(
        self,
        job: Callable[[sqlite3.Connection, Sequence[Item]], Sequence[T]],
        item: Item,
        *,
        requestor: str = "",
    ) -> T:
        """As `write`; but *job* is given all the items that wait for it, and returns as many
        results."""
        return cast(T, await self._queued(job, item, requestor))

    @property
    def is_writing(self) -> bool:
        """Whether writes wait or are under way."""
        return self._writes.is_busy

    def _queued(self, job: Callable[..., Any], item: object, requestor: str) -> asyncio.Future[Any]:
        if self._writes.is_over:
            raise StorageUnavailable("The ledger is closed.")
        return self._writes.put(job, item, requestor)

    def read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """What *job* returns. For look-ups by key, which take microseconds: it runs here and now.

        Raises StorageUnavailable."""
        try:
            result = job(self._reader)
        except sqlite3.Error as wrong:
            self._files.check()  # which may be why
            log.error("the ledger cannot be read", reason=str(wrong))
            raise StorageUnavailable("The ledger cannot be read now.") from wrong
        self._files.check_turn()
        return result

    async def search(
        self,
        job: Callable[[sqlite3.Connection], T],
        *,
        seconds: float = SEARCH_SECONDS,
        is_ours: bool = False,
        requestor: str = "",
    ) -> T:
        """What *job* returns. For reads that may take long: beside the event loop, of one moment.

        They run in turn by *requestor*. Raises StorageUnavailable, also after *seconds* and, unless
        it *is_ours* and for nobody else, when others have kept the WAL from being
        checkpointed; and Overloaded when too many of that requestor's wait."""
        return await self._searches.run(job, seconds=seconds, is_ours=is_ours, requestor=requestor)

    def _commit(self, group: Sequence[Write], follows: bool = False) -> None:
        """Run *group*, which may *follow* another at once, in one transaction; if a job of it
        fails, each job in its own."""
        try:
            self._files.check_before(follows=follows)  # or it might spoil what is left
            self._writer.execute("BEGIN IMMEDIATE")
            failure = self._run(group)
            if failure is None:
                self._writer.execute("COMMIT")
                self._files.check_after()  # or it is durable where nobody will find it
                self._checkpointer.written()
                return
        except (sqlite3.Error, StorageUnavailable) as wrong:
            # The database itself refuses: asking it again for each write would only take longer.
            roll_back(self._writer)
            for write in group:
                write.error = _as_ours(wrong)
            return
        roll_back(self._writer)
        if len(group) == 1:
            group[0].error = _as_ours(failure)
            return
        for write in group:
            self._commit([write])

    def _run(self, group: Sequence[Write]) -> Exception | None:
        """Run the jobs; the error of the first that fails."""
        try:
            for job, writes in groupby(group, key=attrgetter("job")):
                _do(self._writer, job, list(writes))
        except Exception as wrong:
            return wrong
        return None


def _do(connection: sqlite3.Connection, job: Callable[..., Any], writes: Sequence[Write]) -> None:
    """Run writes of one *job*: together where they have items."""
    if writes[0].note is _ALONE:
        for write in writes:
            write.result = job(connection)
        return
    results = job(connection, [write.note for write in writes])
    for write, result in zip(writes, results, strict=True):
        write.result = result


def _as_ours(wrong: Exception) -> Exception:
    if isinstance(wrong, GatewayError):
        return wrong
    if isinstance(wrong, sqlite3.Error):
        log.error("ledger write failed", reason=str(wrong))
        unavailable = StorageUnavailable("The ledger cannot be written now.")
        unavailable.__cause__ = wrong
        return unavailable
    return wrong
