"""Writes lines to a file descriptor, without waiting for it.

Hands them to a thread, since a pipe that nobody reads blocks whoever writes to it. Lines beyond a
megabyte that are still unwritten are lost, and counted. What a line says is left to whoever puts
it."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

MOST_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 1.0  # seconds that `close` waits for the last lines


class LineWriter:
    """Lines for the file descriptor *file*; *lost* is how many there was no room for."""

    def __init__(self, file: int, *, most: int = MOST_BYTES) -> None:
        self._file = file
        self._most = most
        # Bytes so far, each counted by one thread: what is between them is not written yet.
        self._put = self._written = 0
        self.lost = 0
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, lines: Sequence[bytes]) -> None:
        """Write *lines*, each with its line break, soon, or lose them; for one thread."""
        data = b"".join(lines)
        if self._put + len(data) - self._written > self._most:
            self.lost += len(lines)
            return
        self._put += len(data)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="access log", daemon=True)
            self._thread.start()
        self._queue.put(data)

    def close(self) -> None:
        """Write what is left, if that can be done within a second."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_PATIENCE)

    def _write(self) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            with suppress(OSError):  # a full disk, or nobody reads any more
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            self._written += len(data)
