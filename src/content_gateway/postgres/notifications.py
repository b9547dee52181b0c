"""LISTEN on a connection of its own: hears that another process has written, and tells whom it
concerns.

A notification is a hint and never a truth: whoever needs one polls as well, so that nothing is lost
while the connection is broken, or where a pooler takes it away. Then it is opened again, with
backoff."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final, LiteralString

import psycopg
import structlog

from content_gateway.errors import GatewayError
from content_gateway.postgres.connections import ConnectionPool

_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 30.0

log = structlog.get_logger(__name__)


class Listener:
    """Calls *heard* for each notification on a channel, between `start` and `close`."""

    def __init__(
        self, connections: ConnectionPool, listen: LiteralString, heard: Callable[[], None]
    ) -> None:
        """*listen* is the statement, as in `LISTEN channel`."""
        self._connections = connections
        self._listen: LiteralString = listen
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that listens."""
        self._task = asyncio.create_task(self._run(), name="listener")

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            try:
                connection = await self._connections.connect_alone()
                if self._connections.is_pooled:
                    await connection.close()
                    log.info("a pooler takes notifications away: the ledger is polled")
                    return
                async with connection:
                    await connection.execute(self._listen)
                    backoff = _FIRST_BACKOFF
                    self._heard()  # something may have been written before
                    async for _ in connection.notifies():
                        self._heard()
            except (psycopg.Error, GatewayError, OSError) as wrong:
                log.info("nobody hears notifications now", reason=str(wrong))
            with suppress(OverflowError):
                await asyncio.sleep(backoff * random.uniform(0.5, 1.0))  # noqa: S311 - spreads
            backoff = min(2 * backoff, _LONGEST_BACKOFF)
