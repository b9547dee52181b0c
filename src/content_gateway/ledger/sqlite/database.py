"""The ledger's SQLite file, and the two ways to read it.

Knows the file's options: every commit is synced to disk, and a thread checkpoints beside the
writers. Look-ups by key run on the event loop, long reads in threads. The tables are left to the
stores beside it, commits to sqlite/database.py, turns to sqlite/searches.py."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Final, TypeVar

from content_gateway.sqlite.connection import FileOptions, connect
from content_gateway.sqlite.database import Database, DatabaseOptions, Job
from content_gateway.sqlite.group_commit import GroupWriter
from content_gateway.sqlite.searches import Searches

T = TypeVar("T")

LEDGER: Final = DatabaseOptions(
    name="ledger",
    package="content_gateway.ledger.sqlite",
    file=FileOptions(has_checkpointer=True, wal_bytes=64 * 1024 * 1024),
    max_queued=10_000,
    max_group=256,
    gather_seconds=0.0005,
    busy_ms=3_000,
    cache_kib=32 * 1024,
)
_READER_BUSY_MS: Final = 50  # reads run on the event loop: they must not wait


class LedgerDatabase(Database):
    """The ledger's file at *path*, opened on entering. Reads that may take long are a `search`."""

    def __init__(
        self,
        path: Path,
        options: DatabaseOptions = LEDGER,
        writer: type[GroupWriter] = GroupWriter,
    ) -> None:
        super().__init__(path, options, writer)
        self._reader: sqlite3.Connection
        self._searches = Searches(path, options.file, self._files)
        self.search = self._searches.run

    def _open(self) -> None:
        super()._open()
        self._reader = connect(self._path, self._options.file, busy_ms=_READER_BUSY_MS)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self._searches.close)
        self._reader.close()
        await super().__aexit__(*exc_info)

    async def check_writable(self) -> None:
        """Commit something durably that changes nothing; raises StorageUnavailable."""
        await self.write(_rewrite_version)

    def read(self, job: Job[T]) -> T:
        """What *job* returns. For look-ups by key, which take microseconds: it runs here and now.

        Raises StorageUnavailable."""
        try:
            result = job(self._reader)
        except sqlite3.Error as wrong:
            raise self._files.unreadable(wrong) from wrong
        self._files.check_turn()
        return result


def _rewrite_version(connection: sqlite3.Connection) -> None:
    # Setting it writes a page also where it is the same; a transaction without a page would be
    # committed on a full disk too.
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")
