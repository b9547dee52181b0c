"""The leases of one batch of contents: kept while it is worked on, and the work ended where one is
lost.

Knows that a lease that cannot be renewed will be somebody else's: before it is, the work under it
must have ended. What the work is, is left to the reconciler."""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.model.content_state import WorkItem

log = structlog.get_logger(__name__)

Renew = Callable[[Sequence[WorkItem], float], Awaitable[set[int]]]


def owner_name() -> str:
    """A name for who leases, which nobody else has: "host:pid:random"."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class Leases:
    """Leases of *items*, *seconds* long, renewed three times as often between enter and exit."""

    def __init__(self, items: Sequence[WorkItem], renew: Renew, seconds: float) -> None:
        self._dues = {item.id: item for item in items}
        self._renew = renew
        self._seconds = seconds
        self._work: dict[int, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None]

    @property
    def left(self) -> Sequence[WorkItem]:
        """What was not given back yet."""
        return list(self._dues.values())

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep(), name="leases")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def ends_with(self, item: WorkItem, work: asyncio.Task[None]) -> None:
        """Cancel *work* when the lease of *item*, or its generation, has passed on."""
        self._work[item.id] = work

    def over(self, item: WorkItem) -> None:
        """The lease of *item* was given back."""
        self._dues.pop(item.id, None)
        self._work.pop(item.id, None)

    async def _keep(self) -> None:
        now = asyncio.get_running_loop().time
        renewed_at = now()
        while True:
            await asyncio.sleep(self._seconds / 3)
            items = self.left
            try:
                async with asyncio.timeout_at(renewed_at + self._seconds * 2 / 3):
                    held = await self._renew(items, self._seconds)
                renewed_at = now()
            except StorageUnavailable as wrong:
                log.error("leases could not be renewed", reason=wrong.detail)
                if now() < renewed_at + self._seconds * 2 / 3:
                    continue
                held = set()
            except TimeoutError:
                held = set()
            for item in items:
                if item.id not in held and (work := self._work.pop(item.id, None)) is not None:
                    log.info("a lease has passed on", cid=str(item.cid))
                    work.cancel()
