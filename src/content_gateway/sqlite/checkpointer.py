"""The log of writes, checkpointed back into the database file beside the writers.

Left to itself SQLite does that within a commit, and whoever waits for that commit waits for a
thousand pages to reach their places all over a large file: one new pin in ten did. But a checkpoint
that finds nothing to checkpoint can spoil the file, in SQLite from 3.7.0 to 3.51.2, when a commit
begins the log again in that moment (sqlite.org/wal.html, "The WAL-Reset Bug"). So one process alone
checkpoints, whoever has the lock beside the file; and only when something was written after its
last checkpoint, as the log cannot begin again before that is checkpointed. Knows nothing of what is
written."""

import fcntl
import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from content_gateway.sqlite.connection import FileOptions, connect
from content_gateway.sqlite.database_files import DatabaseFiles

_SECONDS: Final = 0.5  # between two checkpoints, each of which makes commits a little slower
_REST_SECONDS: Final = 0.02  # before the last one, so that it is short
_OTHERS_SECONDS: Final = 1.0  # until it is seen that another process has written
_BUSY_MS: Final = 100  # how long writers may be waited for, where the log is to begin again
# Where something new is always there before the old is checkpointed, the log grows; above so many
# pages the writers wait while the rest is checkpointed, and it begins again.
LONGEST_LOG: Final = 16_000
_NONE: Final = -1  # no version

log = structlog.get_logger(__name__)


class Checkpointer:
    """The thread that checkpoints the WAL of the database at *path*, between `start` and `close`.

    Nothing is checkpointed where its *files* are not what they were: what is left might be
    spoilt."""

    def __init__(self, path: Path, options: FileOptions, files: DatabaseFiles) -> None:
        self._path = path
        self._options = options
        self._files = files
        self._is_written = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite checkpointer", daemon=True)
        self._connection: sqlite3.Connection
        self._lock: int
        self._folded: int | None = None  # the version since which nothing need be checkpointed
        self._is_long = False

    def start(self) -> None:
        """Begin to checkpoint, where no other process does; raises sqlite3.Error and OSError."""
        self._connection = connect(self._path, self._options, busy_ms=_BUSY_MS)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._lock = os.open(f"{self._path}.folding", flags, 0o600)
        self._take()
        self._thread.start()

    def written(self) -> None:
        """Say that there may be something to checkpoint; from any thread."""
        self._is_written.set()

    def close(self) -> None:
        """End the thread; what is not checkpointed yet stays in the log, where nothing is lost."""
        self._is_over.set()
        self._is_written.set()
        self._thread.join()
        self._connection.close()
        os.close(self._lock)

    def _run(self) -> None:
        while not self._is_over.wait(_REST_SECONDS if self._is_long else _SECONDS):
            self._is_written.wait(_OTHERS_SECONDS)
            if self._is_over.is_set():
                return
            self._is_written.clear()
            try:
                if self._folded is None:
                    self._take()
                elif self._version() != self._folded:
                    if self._files.has_all:
                        self._checkpoint()
                    else:
                        self._is_written.set()  # still to be checkpointed, if they come back
            except (sqlite3.Error, OSError) as wrong:
                log.error("the WAL was not checkpointed", reason=str(wrong))

    def _take(self) -> None:
        """Become the one who checkpoints, if nobody is; what is in the log now may be checkpointed
        or not."""
        with suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._folded = self._version()

    def _checkpoint(self) -> None:
        mode = "RESTART" if self._is_long else "PASSIVE"
        _, pages, folded = self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        # What a reader still needs cannot be checkpointed; then nobody should wait for it either.
        self._is_long = pages > LONGEST_LOG and pages == folded
        # What was written since then would wait for the next commit, as that version has it too.
        version = self._version()
        self._folded = _NONE if self._files.is_behind else version

    def _version(self) -> int:
        """A number that changes with every commit of anybody else's."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)
