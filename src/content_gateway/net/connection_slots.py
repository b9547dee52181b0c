"""Connection slots: how many requests one HTTP client has under way, in all and to one server.

Waiting for a slot is our doing and not the server's, so it has a limit of its own and spends no
server's deadline; slots go in turn by requestor (fair_semaphore.py). Knows counts only; what a
request is, is left to `http_client.py`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import Overloaded

_LATE: Final = "No connection was free in time."
_ENOUGH: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How many requests at once, how many more may wait, and for how many *seconds*; and the bytes
    of bodies beyond 64 KiB each that may be sent and read at any time. Where others choose what is
    asked, the pool *reserves* some for who comes later, whoever it is."""

    in_all: int = 256
    per_server: int = 64
    waiting: int = 1024
    seconds: float = 2.5
    large_bytes: int = 1024 * 1024 * 1024
    reserves: bool = False


class _HostSlots:
    """The slots of one server; *users* have one or wait for one."""

    def __init__(self, slots: FairSemaphore) -> None:
        self.slots = slots
        self.users = 0


class ConnectionSlots:
    """Hands out slots in turn by requestor; nobody waits for the slot of another server."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._in_all = self._semaphore(limits.in_all, reserves=limits.reserves)
        self._servers: dict[str, _HostSlots] = {}
        # Places to wait for either: who finds none does not wait for one.
        self._places = FairSemaphore(
            limits.waiting,
            waiting=0,
            detail="Too many requests are waiting here for a connection.",
            reserves=limits.reserves,
        )

    @asynccontextmanager
    async def one(self, server: str, requestor: str = "") -> AsyncIterator[None]:
        """A slot for a request to *server*, until the block ends; raises Overloaded."""
        mine = self._servers.get(server)
        if mine is None:
            # A slow server's slots are of no use to others, so none of them is kept free.
            slots = self._semaphore(self._limits.per_server, reserves=False)
            mine = self._servers[server] = _HostSlots(slots)
        mine.users += 1
        # The server's own first: else those of a slow one would hold everybody's.
        of_server = mine.slots.request(requestor)
        try:
            in_all = await self._take(of_server, requestor)
            try:
                yield
            finally:
                in_all.release()
        finally:
            of_server.release()
            mine.users -= 1
            if not mine.users:
                del self._servers[server]

    async def _take(self, of_server: Permit, requestor: str) -> Permit:
        """A slot of all, once there is one of *of_server* too; for both there is one patience."""
        in_all = None
        if of_server.holder is not None:
            in_all = self._in_all.request(requestor)
            if in_all.holder is not None:
                return in_all  # neither waits
        try:
            async with self._places.request(requestor), asyncio.timeout(self._limits.seconds):
                await of_server.granted()
                in_all = in_all or self._in_all.request(requestor)
                await in_all.granted()
        except BaseException as failed:
            if in_all is not None:
                in_all.release()
            if isinstance(failed, TimeoutError):
                raise Overloaded(_LATE) from failed
            raise
        return in_all

    def _semaphore(self, permits: int, *, reserves: bool) -> FairSemaphore:
        # Who waits has a place for that, which is what is bounded.
        return FairSemaphore(
            permits,
            waiting=_ENOUGH,
            patience=self._limits.seconds,
            detail=_LATE,
            reserves=reserves,
        )
