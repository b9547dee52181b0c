"""Writes many short lines to a file descriptor, without waiting for it.

Gathers lines for a tenth of a second and hands them to a thread, since a pipe that nobody reads
blocks whoever writes to it. Lines beyond a megabyte that are still unwritten are lost, and counted.
What a line says is left to whoever puts it."""

import asyncio
import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

_GATHER: Final = 0.1
MOST_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 1.0  # seconds that `close` waits for the last lines


class LineWriter:
    """Lines for the file descriptor *file*; `put` is for one event loop."""

    def __init__(self, file: int, *, most: int = MOST_BYTES) -> None:
        self._file = file
        self._most = most
        self._lines: list[bytes] = []
        # Bytes so far, each counted by one thread: what is between them is not written yet.
        self._put = self._written = 0
        self.lost = 0  # lines, so far
        self._timer: asyncio.TimerHandle | None = None
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> None:
        """Write *line*, which ends with a line break, soon, or lose it."""
        if self._put + len(line) - self._written > self._most:
            self.lost += 1
            return
        self._put += len(line)
        self._lines.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self._hand_over)

    def close(self) -> None:
        """Write what is left, if that can be done within a second."""
        if self._timer is not None:
            self._timer.cancel()
            self._hand_over()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_PATIENCE)

    def _hand_over(self) -> None:
        self._timer = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="access log", daemon=True)
            self._thread.start()
        self._queue.put(b"".join(self._lines))
        self._lines.clear()

    def _write(self) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            with suppress(OSError):  # a full disk, or nobody reads any more
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            self._written += len(data)
