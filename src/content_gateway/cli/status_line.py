"""Progress on standard error, in one line.

On a terminal the line is redrawn in place and erased at the end. Elsewhere it is a plain line every
ten seconds, and at once for news. Why not click's progress bar: docs/adr/0013."""

import shutil
import sys
import time
from types import TracebackType
from typing import Final, Self, TextIO

from content_gateway.codecs.printable import printable

_REDRAW_SECONDS: Final = 0.1
_PLAIN_SECONDS: Final = 10.0
_BAR: Final = 20
_ERASE: Final = "\r\x1b[K"


class StatusLine:
    """The line; it is erased at the exit of the context."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_terminal = self._stream.isatty()
        self._shown_at = float("-inf")
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_terminal and self._shown:
            self._write(_ERASE)

    def show(self, text: str, *, news: bool = False) -> None:
        """Show *text*, unless it is no *news* and the last one was shown a moment ago."""
        now = time.monotonic()
        interval = _REDRAW_SECONDS if self.is_terminal else _PLAIN_SECONDS
        if text == self._shown or (not news and now - self._shown_at < interval):
            return
        self._shown_at, self._shown = now, text
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            # The cursor goes back: what is printed to standard output begins in the first column.
            self._write(_ERASE + text[:width] + "\r")
        else:
            self._write(text + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def bar(done: int, whole: int) -> str:
    """A bar with *done* of *whole* filled: `[##########----------]`."""
    filled = _BAR * min(done, whole) // whole
    return "[" + "#" * filled + "-" * (_BAR - filled) + "]"


def moving_bar(step: int) -> str:
    """A bar for work of unknown length: its mark moves to and fro with *step*."""
    at = step % (2 * (_BAR - 4))
    at = min(at, 2 * (_BAR - 4) - at)
    return "[" + " " * at + "####" + " " * (_BAR - 4 - at) + "]"


def bytes_text(size: int) -> str:
    """*size* bytes for people: `999 B`, `1.2 MB`."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.95:
            return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def plain(text: str) -> str:
    """*text* with `?` for every control character, which a terminal would obey."""
    return printable(text, "?")
