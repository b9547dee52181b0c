"""The SQLite file of blocks, and the three threads that read it.

Blocks are committed without a sync to disk: after a power cut the newest may be missing, which a
pin that is not complete yet notices. Knows the file's options, and who reads in which thread; the
tables are left to blockstore.py and those beside it, commits to sqlite/database.py."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from content_gateway.sqlite.connection import FileOptions, connect
from content_gateway.sqlite.database import Database, DatabaseOptions, Job
from content_gateway.sqlite.database_files import DatabaseFiles

T = TypeVar("T")

BUSY_MS: Final = 5_000  # how long the write lock of another process is waited for
BLOCKS: Final = DatabaseOptions(
    name="block store",
    package="content_gateway.backends.embedded",
    file=FileOptions(
        # Most pins are smaller than this: they are complete before SQLite checkpoints them.
        has_checkpointer=False,
        wal_bytes=128 * 1024 * 1024,
        page_bytes=8 * 1024,  # blocks leave less room unused at the ends of large pages
        can_shrink=True,
    ),
    max_queued=1_000,
    max_group=64,
    busy_ms=BUSY_MS,
    cache_kib=16 * 1024,
)
_ALL: Final = "blocks"  # writes belong to pins, not to requestors: all wait in one queue


class BlockDatabase(Database):
    """The block store's file at *path*, opened on entering. Each of `read`, `walk` and `send` has
    a thread and a connection of its own, so that a long job delays only those of its kind."""

    def __init__(self, path: Path, *, busy_ms: int = BUSY_MS, is_shared: bool = False) -> None:
        # Several processes that checkpoint can corrupt the file (docs/adr/0010).
        file = replace(BLOCKS.file, has_checkpointer=is_shared)
        super().__init__(path, replace(BLOCKS, busy_ms=busy_ms, file=file))
        opened = partial(connect, path, file, busy_ms=busy_ms, cache_kib=BLOCKS.cache_kib)
        self._reader = _Reader("block reader", opened, self._files)
        self._walker = _Reader("block walker", opened, self._files)
        self._sender = _Reader("block sender", opened, self._files)

    async def __aexit__(self, *exc_info: object) -> None:
        for reader in (self._reader, self._walker, self._sender):
            await asyncio.to_thread(reader.close)
        await super().__aexit__(*exc_info)

    async def write(self, job: Job[T], *, durable: bool = False, requestor: str = _ALL) -> T:
        """As the database's, and not synced to disk unless it is to be *durable*."""
        return await super().write(job, durable=durable, requestor=requestor)

    async def read(self, job: Job[T]) -> T:
        """What *job* returns, a look-up or one block; raises StorageUnavailable."""
        return await self._reader.run(job)

    async def walk(self, job: Job[T]) -> T:
        """As `read`, for steps of a walk through a DAG that is pinned."""
        return await self._walker.run(job)

    async def send(self, job: Job[T]) -> T:
        """As `read`, for pieces of what is sent to a client."""
        return await self._sender.run(job)


class _Reader:
    """A thread called *name* that reads, with a connection of its own that the first job opens."""

    def __init__(
        self, name: str, opened: Callable[[], sqlite3.Connection], files: DatabaseFiles
    ) -> None:
        self._files = files
        self._opened = opened
        self._thread = ThreadPoolExecutor(1, name)
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Wait for what is being read, and end. Takes its time: not in the loop."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    async def run(self, job: Job[T]) -> T:
        """What *job* returns; raises StorageUnavailable when the database refuses."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, job)

    def _run(self, job: Job[T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._opened()
            result = job(self._connection)
        except sqlite3.Error as wrong:
            raise self._files.unreadable(wrong) from wrong
        self._files.check_path()
        return result
