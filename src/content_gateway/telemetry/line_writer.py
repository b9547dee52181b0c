"""Writes lines to a file descriptor, each of them whole, without waiting for it.

Hands them to a thread, since a pipe that nobody reads blocks whoever writes to it. Lines beyond a
megabyte that are still unwritten are lost, and counted. What a line says is left to whoever puts
it.

Other processes and threads may write to the same pipe. What is written to one in a single call is
not mixed with theirs up to PIPE_BUF bytes (pipe(7), 4,096 on Linux), so no call writes more to a
pipe or a socket, except of a line that is longer by itself."""

import os
import stat
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from select import PIPE_BUF, POLLOUT, poll
from typing import Final

MOST_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 1.0  # seconds that `close` waits for the last lines
_LINE_END: Final = b"\n"


class LineWriter:
    """Lines for the file descriptor *file*; *lost* is how many there was no room for, or could not
    be written."""

    def __init__(self, file: int, *, most: int = MOST_BYTES) -> None:
        self._file = file
        self._most = most
        # Not where it is not needed: each call takes the interpreter from the event loop once more.
        self._at_once = PIPE_BUF if _is_stream(file) else MOST_BYTES
        self._lock = threading.Lock()  # of what is below
        self._unwritten = 0  # bytes
        self.lost = 0
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_cut = False  # the last line that was begun did not get to its end

    def put(self, lines: Sequence[bytes]) -> None:
        """Write *lines*, each with its line break, soon, or lose them."""
        data = b"".join(lines)
        with self._lock:
            if self._unwritten + len(data) > self._most:
                self.lost += len(lines)
                return
            self._unwritten += len(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="lines", daemon=True)
                self._thread.start()
        self._queue.put(data)

    def close(self) -> bool:
        """Write what is left; False if that cannot be done within a second."""
        thread = self._thread
        if thread is None:
            return True
        self._queue.put(None)
        thread.join(_PATIENCE)
        return not thread.is_alive()

    def _write(self) -> None:
        while (data := self._queue.get()) is not None:
            start = 0
            while start < len(data):
                end = data.rfind(_LINE_END, start, start + self._at_once) + 1
                if not end:  # one that is longer
                    end = data.find(_LINE_END, start) + 1 or len(data)
                self._write_at_once(data[start:end])
                start = end

    def _write_at_once(self, lines: bytes) -> None:
        """Write *lines* in one call, or in as few as it takes."""
        # A disk that was full in the middle of a line may have room again.
        rest = memoryview(_LINE_END + lines if self._is_cut else lines)
        size = len(rest)
        lost = 0
        try:
            while rest:
                rest = rest[self._written(rest) :]
            self._is_cut = False
        except OSError:  # a full disk, or nobody reads any more
            lost = lines.count(_LINE_END)
            self._is_cut = self._is_cut if len(rest) == size else True
        with self._lock:
            self._unwritten -= len(lines)
            self.lost += lost

    def _written(self, data: memoryview) -> int:
        """How much of *data* one call has written; raises OSError."""
        while True:
            try:
                return os.write(self._file, data)
            except BlockingIOError:  # who shares the pipe has set it so
                waiting = poll()
                waiting.register(self._file, POLLOUT)
                waiting.poll()


def _is_stream(file: int) -> bool:
    """Whether *file* is a pipe or a socket."""
    try:
        mode = os.fstat(file).st_mode
    except OSError:  # it is closed, and whatever is written to it lost
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
