"""The lines of a file or a pipe, numbered, read in a thread of their own.

Knows that a line may be too long for memory, and that reading a pipe may block for ever."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

MAX_LINE: Final = 8192  # as JSON, a pin with a full label and a long CID
_LINES_AHEAD: Final = 1024


def numbered(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The lines of *file* without line breaks, from 1; one of more than MAX_LINE bytes is None.

    Raises OSError."""
    number = 0
    while piece := file.readline(MAX_LINE + 1):
        number += 1
        line = piece.removesuffix(b"\n")
        yield number, line if len(line) <= MAX_LINE else None
        while len(line) > MAX_LINE and piece and not piece.endswith(b"\n"):
            piece = file.readline(MAX_LINE + 1)


async def lines_of(file: int) -> AsyncIterator[tuple[int, bytes | None]]:
    """`numbered` lines of the open file descriptor *file*, as they come; raises OSError."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[int, bytes | None] | OSError | None] = asyncio.Queue()
    free = threading.Semaphore(_LINES_AHEAD)

    def read() -> None:
        end: OSError | None = None
        with suppress(RuntimeError):  # the loop is closed: nobody wants the lines any more
            try:
                for line in numbered(open(file, "rb", closefd=False)):  # noqa: SIM115
                    free.acquire()
                    loop.call_soon_threadsafe(queue.put_nowait, line)
            except OSError as wrong:
                end = wrong
            loop.call_soon_threadsafe(queue.put_nowait, end)

    # A daemon, and none of the loop's own threads: those are joined at the end of the process,
    # which would wait for a terminal's next line.
    threading.Thread(target=read, name="lines", daemon=True).start()
    while (line := await queue.get()) is not None:
        if isinstance(line, OSError):
            raise line
        free.release()
        yield line
