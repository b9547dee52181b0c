"""How far an attempt is, passed on to the ledger once a second and no more often.

Knows that a backend tells it with every block; the last word is kept, the others are not. What it
is good for is left to whoever reads the ledger."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Self

import structlog

from content_gateway.errors import StorageUnavailable

_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class ProgressWriter:
    """Told blocks and bytes by calling it; between enter and exit it passes them to *keep*."""

    def __init__(self, keep: Callable[[int, int], Awaitable[None]]) -> None:
        self._keep = keep
        self._last: tuple[int, int] | None = None
        self._task: asyncio.Task[None]

    def __call__(self, blocks: int, size: int) -> None:
        """Take note that so many blocks and bytes are there."""
        self._last = (blocks, size)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._pass_on(), name="progress")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._write()

    async def _pass_on(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            await self._write()

    async def _write(self) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        try:
            await self._keep(*last)
        except StorageUnavailable as wrong:
            log.warning("progress was not kept", reason=wrong.detail)
