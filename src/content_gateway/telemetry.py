"""Logs and request ids.

Writes one event a line to standard error, as text or JSON, and takes out what must never be in
a log: API keys. Which events there are is left to the modules that log them."""

import logging
import os
import re
import secrets
import sys
from collections.abc import Iterator, MutableMapping
from itertools import count
from typing import Any, Final

import structlog

_KEY: Final = re.compile(r"cg_[0-9A-Za-z]{20,}")
_REDACTED: Final = "cg_********"


def configure(level: str, log_format: str) -> None:
    """Set up logging for the process, uvicorn's and asyncio's own messages included."""
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
        processors=[*chain, last],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(least, logging.WARNING))
    # uvicorn warns of every malformed request: any client could fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide everything in *event* that looks like a key of ours."""
    for name, value in event.items():
        if isinstance(value, str) and "cg_" in value:
            event[name] = _KEY.sub(_REDACTED, value)
    return event


def request_ids() -> Iterator[str]:
    """Ids that are unique across processes and restarts: a random start, then a count."""
    prefix = f"{secrets.token_hex(4)}{os.getpid():x}"
    return (f"{prefix}-{number}" for number in count(1))
