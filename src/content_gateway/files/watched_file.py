"""Files that an operator wrote: opened in one way, parsed, and parsed again when they change.

Knows that only a regular file can be read without waiting for somebody, when a file has become
another one, keeps the last good value when the new one is broken, and lets no large file hold up
the event loop. What the bytes mean is left to the parser that is handed in."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Final, Generic, TypeVar

import structlog

from content_gateway.errors import WrongSettings

CHECK_SECONDS: Final = 1.0
# Parsed between two requests, in 30 ms at most. What is larger goes to a thread.
IN_PLACE_BYTES: Final = 32 * 1024
_LINES_A_TURN: Final = 256  # one to three milliseconds

T = TypeVar("T")

# Modification time, size, inode: one version of a file.
Stamp = tuple[int, int, int]

log = structlog.get_logger(__name__)


class WatchedFile(Generic[T]):
    """The file at *path* as *read* parses it, checked once a second while in use.

    *read* is a pure parser of the bytes that raises ValueError, and nothing else, for a file
    that is wrong. Small files are parsed where `current` is called; larger ones in a thread,
    once two checks have seen the same version, since a large file takes a while to write. A
    file is best replaced in one step (written beside, then renamed): no half of it is read."""

    def __init__(
        self,
        path: Path,
        read: Callable[[bytes], T],
        *,
        setting: str,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads the file at once; raises WrongSettings, naming *setting*, if it cannot be used."""
        self._path = path
        self._read = read
        self._setting = setting
        self._max_bytes = max_bytes
        self._clock = clock
        self._check_at = clock() + CHECK_SECONDS
        self._closed = False
        self._reader: Thread | None = None
        self._seen: Stamp | None = None  # by the last check
        self._tried: Stamp | None = None  # the version that was last parsed, or could not be
        self._alarm: tuple[Stamp | None, str] | None = None
        try:
            self._value = read(self._bytes())
        except (OSError, ValueError) as wrong:
            raise WrongSettings(f"{setting}: {path}: {wrong}") from wrong

    def current(self) -> T:
        """The last good value. Call it from one thread only."""
        if self._clock() >= self._check_at:
            self._check()
        return self._value

    def close(self) -> None:
        """Stop. A thread that reads now is left behind: it changes and logs nothing."""
        self._closed = True

    def _check(self) -> None:
        self._check_at = self._clock() + CHECK_SECONDS
        if self._closed or (self._reader is not None and self._reader.is_alive()):
            return
        try:
            stamp = _stamp(self._path.stat())
        except OSError as gone:
            self._fail(None, str(gone))
            return
        seen, self._seen = self._seen, stamp
        if stamp == self._tried:
            return
        if stamp[1] <= IN_PLACE_BYTES:
            self._reload()
        elif stamp == seen:
            # A daemon: the end of the process does not wait for a list nobody will ask.
            self._reader = Thread(target=self._reload, name=f"read {self._setting}", daemon=True)
            self._reader.start()

    def _reload(self) -> None:
        try:
            value = self._read(self._bytes())
        except OSError as wrong:
            # It may be readable in a moment without being another version.
            self._fail(None, str(wrong))
        except ValueError as wrong:
            self._fail(self._tried, str(wrong))
        except Exception as bug:  # whatever it is, the last good value serves
            self._fail(self._tried, repr(bug), bug)
        else:
            if not self._closed:
                self._value, self._alarm = value, None
                log.info("a watched file was read again", setting=self._setting)

    def _fail(self, stamp: Stamp | None, reason: str, bug: Exception | None = None) -> None:
        """Alarm once for each broken version, and each way in which a file cannot be reached."""
        self._tried = stamp
        if self._closed or self._alarm == (stamp, reason):
            return
        self._alarm = (stamp, reason)
        log.error(
            "a watched file is broken, its last good version serves",
            setting=self._setting,
            path=str(self._path),
            reason=reason,
            exc_info=bug,
        )

    def _bytes(self) -> bytes:
        """The file's content; raises as `read_bytes`."""
        return read_bytes(self._path, self._max_bytes, self._opened)

    def _opened(self, stamp: Stamp) -> None:
        self._tried = stamp


def read_bytes(
    path: Path, max_bytes: int, opened: Callable[[Stamp], None] = lambda _: None
) -> bytes:
    """The content of the file at *path*; *opened* gets its version.

    Raises OSError, and ValueError where it is no regular file (to open a FIFO would wait for
    somebody to write to it), has more than *max_bytes*, or changes while it is read."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        # Of the open file, not of the path: by now another file may have taken its place.
        before = _stamp(found)
        opened(before)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        with os.fdopen(file, "rb", closefd=False) as stream:
            data = stream.read(max_bytes + 1)
        after = _stamp(os.fstat(file))
    finally:
        os.close(file)
    if len(data) > max_bytes:
        raise ValueError(f"the file has more than {max_bytes} bytes")
    if after != before:
        raise ValueError("the file changed while it was read")
    return data


def stamp_of(path: Path) -> Stamp | None:
    """The version of the file at *path* now; None without one."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of *data* and their numbers, from 1. Parsers of long lists read through this.

    Every few lines other threads get their turn: a thread that only computes would keep the
    event loop waiting for 5 ms (sys.getswitchinterval) each time the loop has something to do."""
    for number, line in enumerate(BytesIO(data), 1):
        if not number % _LINES_A_TURN:
            time.sleep(0)
        yield number, line


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino
