"""Logging.

Writes one event a line to standard error, as text or JSON, limits the rate of each kind of event,
and redacts API keys. Within a service a thread writes them (`unblocked`). Which events there are is
left to the modules that log them."""

import logging
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO, cast

import structlog

from content_gateway.telemetry.line_writer import LineWriter

_KEY: Final = re.compile(r"cg_[0-9A-Za-z]{20,}")
_REDACTED: Final = "cg_********"
# Of one kind of event, that is one text at one level: at once, and a second from then on. A failure
# that each of a thousand requests meets must not fill the disk that it may be about.
BURST: Final = 100
PER_SECOND: Final = 1.0
_KINDS: Final = 1_000
# A terminal obeys them, and others' words may have them. Not the line breaks of a traceback, which
# the renderer leaves alone there and quotes elsewhere.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def configure(level: str, log_format: str) -> None:
    """Set up logging for the process, uvicorn's and asyncio's own messages included."""
    bound, stream = LogBound(), LossyStream(sys.stderr)
    chain: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Before redaction, and without the local variables that a prettier traceback shows.
        structlog.processors.format_exc_info,
        redact,
    ]
    last: structlog.types.Processor
    if log_format == "json":
        last = structlog.processors.JSONRenderer()
    else:
        last = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    least = getattr(logging, level.upper())
    structlog.configure(
        processors=[bound, *chain, last],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        # Text and line break in one call: threads write to the stream side by side.
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, stream)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    handler.addFilter(lambda record: bound.take(record.levelname, str(record.msg)) is not None)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(least, logging.WARNING))
    # uvicorn warns of every malformed request: any client could fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


@contextmanager
def unblocked() -> Iterator[None]:
    """Nobody who logs within this block waits for whoever reads the log: one thread does.

    What it has not written a second after the block is lost."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and isinstance(handler.stream, LossyStream):
            with handler.stream.through_a_thread():
                yield
            return
    yield


class LossyStream:
    """A stream for logs, from which a line is lost where it cannot be written: a full disk, a pipe
    that nobody reads. Whoever logs such a failure must go on, and answer those who wait."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer: LineWriter | None = None

    @contextmanager
    def through_a_thread(self) -> Iterator[None]:
        """Whole lines are handed to a thread within this block, if the stream is a file."""
        try:
            writer = LineWriter(self._stream.fileno())
        except (OSError, ValueError):
            yield
            return
        self._writer = writer
        try:
            yield
        finally:
            if writer.close():  # else who writes now would wait as it does
                self._writer = None

    def write(self, text: str) -> None:
        """Write *text*, which ends with a line, if that can be done."""
        if self._writer is not None:
            self._writer.put([text.encode("utf-8", "backslashreplace")])
            return
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)

    def flush(self) -> None:
        """Hand over what was written, if that can be done."""
        with suppress(OSError, ValueError):
            self._stream.flush()


class LogBound:
    """How many events of each kind are written; a processor of structlog's.

    An event that is written says how many of its kind were left out before it, in *left_out*."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By kind: how many may be written at once, since when, and how many were left out.
        self._kinds: dict[tuple[str, str], tuple[float, float, int]] = {}
        self.events: Counter[str] = Counter()  # by level, those that were left out included

    def __call__(
        self, _: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """*event*, if one more of its kind is written; raises DropEvent if not."""
        left_out = self.take(method, str(event.get("event")))
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    def take(self, level: str, text: str) -> int | None:
        """How many were left out since the last one that was written; None to leave this out."""
        with self._lock:
            self.events[level.lower()] += 1
            now = self._clock()
            room, since, left_out = self._kinds.pop((level, text), (float(BURST), now, 0))
            room = min(float(BURST), room + (now - since) * PER_SECOND)
            is_written = room >= 1
            self._kinds[level, text] = (
                (room - 1, now, 0) if is_written else (room, now, left_out + 1)
            )
            if len(self._kinds) > _KINDS:
                del self._kinds[next(iter(self._kinds))]  # the one that was quiet the longest
            return left_out if is_written else None


def logged() -> Mapping[str, int]:
    """How many events of each level this process has had to log since `configure`."""
    bounds = [one for one in structlog.get_config()["processors"] if isinstance(one, LogBound)]
    return bounds[0].events if bounds else {}


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide all of *event* that looks like a key of ours, and spell out control characters."""
    for name, value in event.items():
        if isinstance(value, str):
            told = _KEY.sub(_REDACTED, value) if "cg_" in value else value
            event[name] = told if told.isprintable() else _CONTROLS.sub(_spelt, told)
    return event


def _spelt(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode()
