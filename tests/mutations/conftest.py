"""What every case runs under: logs that are really written, to nowhere, and tasks that end well."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog

from content_gateway.telemetry.logs import redact


class _Nowhere(io.StringIO):
    """Takes text and keeps none."""

    def write(self, text: str) -> int:
        return len(text)


@pytest.fixture(autouse=True)
def _written_logs() -> Iterator[None]:
    """Events are rendered as in production, so that one which cannot be is noticed."""
    before = structlog.get_config()
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        logger_factory=structlog.PrintLoggerFactory(_Nowhere()),
        cache_logger_on_first_use=False,
    )
    yield
    structlog.configure(**before)


@pytest.fixture(autouse=True)
async def _no_loose_ends() -> AsyncIterator[None]:
    """No task of a case fails without anybody hearing of it, and none outlives its case."""
    loose: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: loose.append(context))
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    loop.set_exception_handler(None)
    assert not loose, loose[:3]
    assert not left, left
