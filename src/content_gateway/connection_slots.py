"""Connection slots: how many requests one HTTP client has under way, in all and to one server.

Waiting for a slot is our doing and not the server's, so it has a limit of its own and spends no
server's deadline. Knows counts only; what a request is, is left to `outbound.py`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from content_gateway.errors import Overloaded


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many requests at once, how many more may wait, and for how many *seconds*; and the bytes
    of bodies beyond 64 KiB each that may be sent and read at any time."""

    in_all: int = 256
    per_server: int = 64
    waiting: int = 1024
    seconds: float = 2.5
    large_bytes: int = 1024 * 1024 * 1024


@dataclass
class _Server:
    """The slots of one server; *users* have one or wait for one."""

    slots: asyncio.Semaphore
    users: int = field(default=0)


class ConnectionSlots:
    """Hands out slots, to whoever waits longest; nobody waits for the slot of another server."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._in_all = asyncio.Semaphore(limits.in_all)
        self._servers: dict[str, _Server] = {}
        self._waiting = 0

    @asynccontextmanager
    async def one(self, server: str) -> AsyncIterator[None]:
        """A slot for a request to *server*, until the block ends; raises Overloaded."""
        limits = self._limits
        mine = self._servers.get(server)
        if mine is None:
            mine = self._servers[server] = _Server(asyncio.Semaphore(limits.per_server))
        mine.users += 1
        try:
            await self._take(mine.slots)
            try:
                yield
            finally:
                self._in_all.release()
                mine.slots.release()
        finally:
            mine.users -= 1
            if not mine.users:
                del self._servers[server]

    async def _take(self, of_server: asyncio.Semaphore) -> None:
        if not (of_server.locked() or self._in_all.locked()):
            await of_server.acquire()  # neither waits
            await self._in_all.acquire()
            return
        if self._waiting >= self._limits.waiting:
            raise Overloaded("Too many requests are waiting here for a connection.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.seconds):
                # The server's own first: else those of a slow one would hold everybody's.
                await of_server.acquire()
                try:
                    await self._in_all.acquire()
                except BaseException:
                    of_server.release()
                    raise
        except TimeoutError as late:
            raise Overloaded("No connection was free in time.") from late
        finally:
            self._waiting -= 1
