"""One SQLite file with one writer thread and group commit.

All writes of the process wait for that thread, which runs those that wait in one transaction. A
write is answered after its commit, which is synced to disk before unless the write said that it
need not be. Knows no tables and no reads: both are left to those who derive from `Database`."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast

from content_gateway.concurrency.write_queue import Write
from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.files.disk import is_of_the_disk, is_read_only
from content_gateway.files.permissions import refusal
from content_gateway.sqlite.checkpointer import Checkpointer
from content_gateway.sqlite.connection import FileOptions, connect, migrate
from content_gateway.sqlite.database_files import DatabaseFiles
from content_gateway.sqlite.group_commit import GroupWriter, roll_back

T = TypeVar("T")
Item = TypeVar("Item")
Job = Callable[[sqlite3.Connection], T]

# What SQLite says where a disk or another process is in the way. A database of which a page cannot
# be read says the same as one that cannot be written (SQLITE_IOERR).
_MAY_PASS: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
)
# In place of a write's item: it runs alone, and is synced to disk, or need not be.
_DURABLE: Final = object()
_NOT_DURABLE: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """What one kind of database file does otherwise than another.

    *name* is what people call it in errors and logs; its migrations are in *package*. At most
    *max_queued* writes of one requestor wait, *max_group* are committed together, and where
    several come at once the writer waits *gather_seconds* for more of them."""

    name: str
    package: str
    file: FileOptions
    max_queued: int
    max_group: int
    gather_seconds: float = 0.0
    busy_ms: int
    cache_kib: int


class Database:
    """The file at *path*, opened on entering: created where it is missing, then migrated."""

    def __init__(
        self, path: Path, options: DatabaseOptions, writer: type[GroupWriter] = GroupWriter
    ) -> None:
        """*writer*: what commits in groups; a simulation's has no thread."""
        self._path = path
        self._options = options
        self._files = DatabaseFiles(path, options.name)
        self.writes = writer(
            self._commit,
            name=f"{options.name} writer",
            limit=options.max_queued,
            group=options.max_group,
            gather=options.gather_seconds,
        )
        self._writer: sqlite3.Connection
        self._is_synced = True  # as `connect` leaves it
        self._checkpointer: Checkpointer | None = None
        if options.file.has_checkpointer:
            self._checkpointer = Checkpointer(path, options.file, self._files)
        self._watch: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        """Raises WrongSettings when the file cannot be created or opened, or is not ours, and
        StorageUnavailable where that may pass: on a full disk, beside another process's lock."""
        try:
            await asyncio.to_thread(self._open)
        except (OSError, sqlite3.Error) as wrong:
            reason = refusal(self._path)
            if reason is None and _may_pass(wrong, self._path):
                raise StorageUnavailable(
                    f"{self._path} cannot be used now: {_words(wrong, self._path)}."
                ) from wrong
            text = f"data_dir: {self._path} cannot be used: {reason or _words(wrong, self._path)}"
            raise WrongSettings(text) from wrong
        self.writes.start()
        self._watch = asyncio.create_task(self._files.watch(), name=f"{self._options.name} files")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self.writes.close()
        if self._checkpointer is not None:
            await asyncio.to_thread(self._checkpointer.close)
        await asyncio.to_thread(self._close)

    def _open(self) -> None:
        """Open the file; runs in a thread, since it may wait for other processes."""
        options = self._options
        self._files.prepare()
        self._writer = connect(
            self._path, options.file, busy_ms=options.busy_ms, cache_kib=options.cache_kib
        )
        migrate(self._writer, options.package, options.name)
        self._files.opened()
        if self._checkpointer is not None:
            self._checkpointer.start()

    def _close(self) -> None:
        """Close the file; runs in a thread, since the last connection checkpoints the WAL."""
        self._writer.close()
        self._files.close()

    async def write(self, job: Job[T], *, durable: bool = True, requestor: str = "") -> T:
        """What *job* returns, once its changes are committed; on disk too, if *durable*.

        *job* may run more than once. It waits in the turn of *requestor*, that of the service
        itself where that is empty. A caller who is cancelled does not stop it. Raises what *job*
        raises, StorageUnavailable when the database refuses, and Overloaded when too many writes
        of that requestor wait; then nothing of its changes is kept."""
        return cast(T, await self._queued(job, _DURABLE if durable else _NOT_DURABLE, requestor))

    async def write_together(
        self,
        job: Callable[[sqlite3.Connection, Sequence[Item]], Sequence[T]],
        item: Item,
        *,
        requestor: str = "",
    ) -> T:
        """As `write`, but *job* is given all items that wait for it and returns as many results."""
        return cast(T, await self._queued(job, item, requestor))

    @property
    def is_writing(self) -> bool:
        """Whether writes wait or are under way."""
        return self.writes.is_busy

    def _queued(self, job: Callable[..., Any], item: object, requestor: str) -> asyncio.Future[Any]:
        if self.writes.is_over:
            raise StorageUnavailable(f"The {self._options.name} is closed.")
        return self.writes.put(job, item, requestor)

    def _commit(self, group: Sequence[Write], follows: bool = False) -> None:
        """Run *group* in one transaction; if a job of it fails, each job in a transaction of its
        own. *follows* says that the group waited while the one before was committed."""
        try:
            self._files.check_before(follows=follows)  # or it might spoil what is left
            self._sync(any(write.note is not _NOT_DURABLE for write in group))
            self._writer.execute("BEGIN IMMEDIATE")
            failure = self._run(group)
            if failure is None:
                self._writer.execute("COMMIT")
                self._files.check_after()  # or it is durable where nobody will find it
                if self._checkpointer is not None:
                    self._checkpointer.written()
                return
        except (sqlite3.Error, StorageUnavailable) as wrong:
            # The database itself refuses: asking it again for each write would only take longer.
            roll_back(self._writer)
            for write in group:
                write.error = self._error_of(wrong)
            return
        roll_back(self._writer)
        if len(group) == 1:
            group[0].error = self._error_of(failure)
            return
        for write in group:
            self._commit([write])

    def _sync(self, is_synced: bool) -> None:
        """Have the next commit synced to disk, with all commits before it, or not."""
        if is_synced != self._is_synced:
            # In WAL mode NORMAL syncs at checkpoints only: after a power cut the newest commits
            # may be gone, but nothing is torn.
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced

    def _run(self, group: Sequence[Write]) -> Exception | None:
        """Run the jobs; the error of the first that fails."""
        try:
            for job, writes in groupby(group, key=attrgetter("job")):
                _run_job(self._writer, job, list(writes))
        except Exception as wrong:
            return wrong
        return None

    def _error_of(self, wrong: Exception) -> Exception:
        return self._files.refusal(wrong, "written") if isinstance(wrong, sqlite3.Error) else wrong


def _may_pass(wrong: OSError | sqlite3.Error, path: Path) -> bool:
    """Whether it is no wrong setting that the database at *path* cannot be opened."""
    if is_read_only(path.parent):  # of which SQLite says that it cannot open a file
        return True
    if isinstance(wrong, OSError):
        return is_of_the_disk(wrong)
    return getattr(wrong, "sqlite_errorcode", 0) & 0xFF in _MAY_PASS


def _words(wrong: OSError | sqlite3.Error, path: Path) -> str:
    if is_read_only(path.parent):
        return "the file system is read-only"
    return (wrong.strerror if isinstance(wrong, OSError) else None) or str(wrong)


def _run_job(
    connection: sqlite3.Connection, job: Callable[..., Any], writes: Sequence[Write]
) -> None:
    """Run writes of one *job*: together where they have items."""
    if writes[0].note is _DURABLE or writes[0].note is _NOT_DURABLE:
        for write in writes:
            write.result = job(connection)
        return
    results = job(connection, [write.note for write in writes])
    for write, result in zip(writes, results, strict=True):
        write.result = result
