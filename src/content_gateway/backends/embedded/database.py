"""The block store's SQLite file: one writer thread with group commit, and three that read.

What waits to be written is committed together; blocks are written without waiting for the disk
(WAL, synchronous=NORMAL: after a power cut the newest may be gone, never half there), and a
group that holds something durable is synced first, with all that went before it. Knows no
tables; sqlite's errors become StorageUnavailable, and the next write tries the disk again."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self, TypeVar, cast

import structlog

from content_gateway.errors import Overloaded, StorageUnavailable, WrongSettings
from content_gateway.sqlite.database_files import DatabaseFiles, uri_of, use_wal
from content_gateway.sqlite.group_commit import GroupWriter, Write, roll_back

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

VERSION: Final = 2
MAX_QUEUED_WRITES: Final = 1_000
MAX_GROUP: Final = 64
PAGE_BYTES: Final = 8 * 1024
# The WAL is written back into the file when it has grown to this; it is larger than most pins,
# so that these are written back after they are complete, not while somebody waits.
WAL_BYTES: Final = 128 * 1024 * 1024
_CACHE_KIB: Final = 16 * 1024
BUSY_MS: Final = 5_000  # how long another process that writes is waited for

log = structlog.get_logger(__name__)


class BlockDatabase:
    """The file at *path*, with the tables of *schema* (statements); opened on entering.

    A file of an older version runs *migration* once, behind the schema."""

    def __init__(
        self,
        path: Path,
        schema: tuple[str, ...],
        migration: tuple[str, ...] = (),
        *,
        busy_ms: int = BUSY_MS,
    ) -> None:
        self._migration = migration
        self._path = path
        self._busy_ms = busy_ms
        self._schema = schema
        self._writes = GroupWriter(
            self._commit, name="block writer", limit=MAX_QUEUED_WRITES, group=MAX_GROUP
        )
        self._writer: sqlite3.Connection
        self._files = DatabaseFiles(path, "block store")
        self._watch: asyncio.Task[None]
        # One thread each, so that what is long keeps nobody waiting: look-ups and single blocks,
        # walks of what is brought in, and CARs that are sent.
        self._readers = {
            reader: _Reader(f"block {reader}", self._files)
            for reader in ("reader", "walker", "sender")
        }

    async def __aenter__(self) -> Self:
        """Raises WrongSettings when the file cannot be made, or is not a block store of ours."""
        try:
            await asyncio.to_thread(self._open)
        except (OSError, sqlite3.Error) as wrong:
            raise WrongSettings(f"data_dir: {self._path} cannot be used: {wrong}") from wrong
        self._writes.start()
        self._watch = asyncio.create_task(self._files.watch(), name="block store files")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._writes.close()
        for reader in self._readers.values():
            await asyncio.to_thread(reader.close)
        await asyncio.to_thread(self._writer.close)  # writes the WAL back
        self._files.close()

    async def write(self, job: Job[T], *, durable: bool = False) -> T:
        """What *job* returns, once its changes are committed; on disk, too, if *durable*.

        An error of the job's own undoes its changes and is raised. Raises StorageUnavailable
        when the disk refuses and Overloaded when too much waits; then nothing of it is kept. A
        caller who is cancelled does not stop the job."""
        if self._writes.is_full:
            raise Overloaded("Too many writes wait for the block store.")
        return cast(T, await self._writes.put(job, durable))

    async def read(self, job: Job[T]) -> T:
        """What *job* returns; raises StorageUnavailable when the disk refuses."""
        return await self._readers["reader"].run(job)

    async def walk(self, job: Job[T]) -> T:
        """As `read`, for steps of a walk that brings something in: one after the other."""
        return await self._readers["walker"].run(job)

    async def send(self, job: Job[T]) -> T:
        """As `read`, for pieces of what is sent."""
        return await self._readers["sender"].run(job)

    def _open(self) -> None:
        self._files.prepare()
        self._writer = _connect(self._path, self._busy_ms)
        # Before the first table only: pages this large hold few blocks' ends in vain, and the
        # room of what is unpinned can be given back to the disk.
        self._writer.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
        use_wal(self._writer, self._busy_ms)
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // PAGE_BYTES}")
        self._writer.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        self._writer.execute("BEGIN IMMEDIATE")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise sqlite3.DatabaseError("it was made by a newer version")
        for statement in self._schema:
            self._writer.execute(statement)
        if version < VERSION:
            for statement in self._migration:
                self._writer.execute(statement)
        self._writer.execute(f"PRAGMA user_version = {VERSION}")
        self._writer.execute("COMMIT")
        for reader in self._readers.values():
            reader.open(self._path, self._busy_ms)
        self._files.opened()

    def _commit(self, group: Sequence[Write], follows: bool) -> None:
        """Run *group*, which may *follow* another at once, in one transaction, each of it in a
        savepoint."""
        durable = any(write.note for write in group)
        try:
            self._files.check_before(follows=follows)  # or it might spoil what is left
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._writer.execute("BEGIN IMMEDIATE")
            for write in group:
                self._run(write)
            self._writer.execute("COMMIT")
            self._files.check_after()  # or it is where nobody will find it
        except StorageUnavailable as gone:
            for write in group:
                write.error = gone
        except sqlite3.Error as wrong:
            roll_back(self._writer)
            log.error("the block store cannot be written", reason=str(wrong))
            for write in group:
                write.error = _refused(wrong, "written")
                write.error.__cause__ = wrong

    def _run(self, write: Write) -> None:
        self._writer.execute("SAVEPOINT job")
        try:
            write.result = write.job(self._writer)
        except sqlite3.Error:
            raise
        except Exception as wrong:
            self._writer.execute("ROLLBACK TO job")
            write.error = wrong
        self._writer.execute("RELEASE job")


class _Reader:
    """A thread that reads, with a connection of its own."""

    def __init__(self, name: str, files: DatabaseFiles) -> None:
        self._files = files
        self._thread = ThreadPoolExecutor(1, name)
        self._connection: sqlite3.Connection | None = None

    def open(self, path: Path, busy_ms: int) -> None:
        """Raises sqlite3.Error."""
        self._connection = _connect(path, busy_ms)

    def close(self) -> None:
        """Wait for what is being read, and end."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    async def run(self, job: Job[T]) -> T:
        """What *job* returns; raises StorageUnavailable when the disk refuses."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, job)

    def _run(self, job: Job[T]) -> T:
        assert self._connection is not None  # noqa: S101 - between `open` and `close`
        try:
            result = job(self._connection)
        except sqlite3.Error as wrong:
            self._files.check()  # which may be why
            raise _refused(wrong, "read") from wrong
        self._files.check_path()
        return result


def _connect(path: Path, busy_ms: int) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri_of(path), isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")  # what a job might take back is no file
    return connection


def _refused(wrong: sqlite3.Error, what: str) -> StorageUnavailable:
    return StorageUnavailable(f"The block store cannot be {what} now: {wrong}.")
