"""The log of writes, folded back into the database file beside the writer.

Left to itself SQLite does that within a commit, and whoever waits for that commit waits for a
thousand pages to reach their places all over a large file: one new pin in ten did. Knows when
something was written, and nothing of what; SQLite itself begins the log anew when all is folded."""

import sqlite3
import threading
from pathlib import Path
from typing import Final

import structlog

from content_gateway.storage.connection import connect

_SECONDS: Final = 0.1  # between two looks
_BUSY_MS: Final = 0  # whoever else is at it does the same

log = structlog.get_logger(__name__)


class Folding:
    """The thread that folds the log of the database at *path*, between `start` and `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_written = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite folding", daemon=True)
        self._connection: sqlite3.Connection

    def start(self) -> None:
        """Begin to fold; raises sqlite3.Error."""
        self._connection = connect(self._path, _BUSY_MS)
        self._thread.start()

    def written(self) -> None:
        """Say that there is something to fold; from any thread."""
        self._is_written.set()

    def close(self) -> None:
        """End the thread; what is not folded yet stays in the log, where nothing is lost."""
        self._is_over.set()
        self._is_written.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._is_over.wait(_SECONDS):
            self._is_written.wait()
            self._is_written.clear()
            try:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error as wrong:
                log.error("the log was not folded", reason=str(wrong))
