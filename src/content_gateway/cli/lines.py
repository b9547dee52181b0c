"""The lines of a file or a pipe, numbered, as they come, and never many of them at a time.

Knows neither what is on a line nor when the end comes: a thread reads, so that whoever waits for
the next lines can do other things, or be interrupted."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

_CHUNK: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 4
MAX_LINE: Final = 4096


class Splitter:
    """Chunks of bytes in, whole lines out; a line longer than MAX_LINE comes out as None."""

    def __init__(self) -> None:
        self._number = 0
        self._rest = b""
        self._is_long = False

    def feed(self, chunk: bytes) -> list[tuple[int, bytes | None]]:
        """The lines that *chunk* ends, with their numbers from 1."""
        *ended, rest = chunk.split(b"\n")
        lines = [self._line(piece) for piece in ended]
        self._keep(rest)
        return lines

    def end(self) -> list[tuple[int, bytes | None]]:
        """The last line, where no line break ends it."""
        return [self._line(b"")] if self._rest or self._is_long else []

    def _line(self, piece: bytes) -> tuple[int, bytes | None]:
        self._keep(piece)
        line = None if self._is_long else self._rest
        self._number, self._rest, self._is_long = self._number + 1, b"", False
        return self._number, line

    def _keep(self, piece: bytes) -> None:
        if len(self._rest) + len(piece) > MAX_LINE:
            self._rest, self._is_long = b"", True
        elif not self._is_long:
            self._rest += piece


async def lines_of(file: int) -> AsyncIterator[tuple[int, bytes | None]]:
    """The numbered lines of the open file descriptor *file*; raises OSError."""
    splitter = Splitter()
    async for chunk in _chunks(file):
        for line in splitter.feed(chunk):
            yield line
    for line in splitter.end():
        yield line


async def _chunks(file: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)

    def read() -> None:
        while True:
            room.acquire()
            try:
                chunk: bytes | OSError = os.read(file, _CHUNK)
            except OSError as wrong:
                chunk = wrong
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, chunk)
            except RuntimeError:
                return  # whoever wanted the lines has gone
            if not isinstance(chunk, bytes) or not chunk:
                return

    # Not the loop's own threads: one that waits for a terminal would hold up the end.
    threading.Thread(target=read, name="lines", daemon=True).start()
    while chunk := await arrived.get():
        if isinstance(chunk, OSError):
            raise chunk
        room.release()
        yield chunk
