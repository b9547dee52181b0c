"""Checkpoints: the WAL written back into the database file, in a thread beside the writer.

By default SQLite checkpoints within a commit, which then takes as long as writing a thousand pages
all over a large file: one new pin in ten waited for that. But in SQLite 3.7.0 to 3.51.2 a
checkpoint that finds nothing to write can corrupt the file when a commit restarts the WAL at the
same moment (sqlite.org/wal.html, "The WAL-Reset Bug"). So only one process checkpoints, the one
that holds a lock on a file beside the database, and only if something was committed since its last
checkpoint: until that is written back the WAL cannot restart. Knows nothing of tables."""

import fcntl
import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from content_gateway.files.permissions import open_own
from content_gateway.sqlite.connection import FileOptions, connect
from content_gateway.sqlite.database_files import DatabaseFiles

_SECONDS: Final = 0.5  # between two checkpoints, each of which makes commits a little slower
_RESTART_SECONDS: Final = 0.02  # before one that blocks writers, so that it has little to write
_OTHERS_SECONDS: Final = 1.0  # until commits of another process are noticed
_BUSY_MS: Final = 100  # how long to wait for writers where the WAL is to restart
# Under a steady load a passive checkpoint never gets to the end, and the WAL grows. Above so many
# pages the next one blocks the writers, writes the rest back, and the WAL restarts.
MAX_WAL_PAGES: Final = 16_000
_NO_VERSION: Final = -1

log = structlog.get_logger(__name__)


class Checkpointer:
    """The thread that checkpoints the WAL of the database at *path*, between `start` and `close`.

    It stops while its *files* have been replaced or damaged: a checkpoint could make that worse."""

    def __init__(self, path: Path, options: FileOptions, files: DatabaseFiles) -> None:
        self._path = path
        self._options = options
        self._files = files
        self._is_written = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite checkpointer", daemon=True)
        self._connection: sqlite3.Connection
        self._lock: int
        # The version of the database that is wholly checkpointed; None without the lock.
        self._checkpointed: int | None = None
        self._is_wal_long = False

    def start(self) -> None:
        """Start the thread; raises sqlite3.Error and OSError."""
        self._connection = connect(self._path, self._options, busy_ms=_BUSY_MS)
        # Its name is as old as the first release: processes of two versions exclude each other.
        self._lock = open_own(self._path.with_name(f"{self._path.name}.folding"))
        self._try_lock()
        self._thread.start()

    def written(self) -> None:
        """Notice that something was committed; from any thread."""
        self._is_written.set()

    def close(self) -> None:
        """End the thread. What is not checkpointed yet stays in the WAL, where it is durable."""
        self._is_over.set()
        self._is_written.set()
        self._thread.join()
        self._connection.close()
        os.close(self._lock)

    def _run(self) -> None:
        while not self._is_over.wait(_RESTART_SECONDS if self._is_wal_long else _SECONDS):
            self._is_written.wait(_OTHERS_SECONDS)
            if self._is_over.is_set():
                return
            self._is_written.clear()
            try:
                if self._checkpointed is None:
                    self._try_lock()  # the process that held it may be gone
                elif self._version() != self._checkpointed:
                    if self._files.has_all:
                        self._checkpoint()
                    else:
                        self._is_written.set()  # check again: the files may come back
            except (sqlite3.Error, OSError) as wrong:
                log.error("the WAL was not checkpointed", reason=str(wrong))

    def _try_lock(self) -> None:
        """Become the process that checkpoints, unless another is."""
        with suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The WAL may be written back by now, or not: only the next commit makes it safe to ask.
            self._checkpointed = self._version()

    def _checkpoint(self) -> None:
        mode = "RESTART" if self._is_wal_long else "PASSIVE"
        _, pages, written_back = self._connection.execute(
            f"PRAGMA wal_checkpoint({mode})"
        ).fetchone()
        # If a reader kept some of it from being written back, blocking the writers would not help.
        self._is_wal_long = pages > MAX_WAL_PAGES and pages == written_back
        # A commit between the checkpoint and this version must not count as checkpointed.
        version = self._version()
        self._checkpointed = _NO_VERSION if self._files.is_behind else version

    def _version(self) -> int:
        """A number that changes with every commit through another connection."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)
