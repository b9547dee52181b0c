"""Writes lines to a file descriptor, without waiting for it.

Hands them to a thread, since a pipe that nobody reads blocks whoever writes to it. Lines beyond a
megabyte that are still unwritten are lost, and counted. Where other processes write there too, no
line of theirs comes between the bytes of one of ours: a pipe takes so much at once or nothing
(PIPE_BUF of pipe(7)). What a line says is left to whoever puts it."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from select import PIPE_BUF
from typing import Final

MOST_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 1.0  # seconds that `close` waits for the last lines


class LineWriter:
    """Lines for the file descriptor *file*; *lost* is how many there was no room for.

    Where it *is_shared* by several processes lines are written some at a time."""

    def __init__(self, file: int, *, most: int = MOST_BYTES, is_shared: bool = False) -> None:
        self._file = file
        self._is_shared = is_shared
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
            with suppress(OSError):  # a full disk, or nobody reads any more
                for piece in _pieces(data) if self._is_shared else (data,):
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[os.write(self._file, rest) :]
            self._written += len(data)


def _pieces(data: bytes) -> Iterator[bytes]:
    """*data* in pieces of whole lines that a pipe takes at once, or of one line that is longer."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + PIPE_BUF) + 1
        end = end or data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end
