"""The leases of one batch of contents: kept while it is worked on, and the work ended where one is
lost.

Knows that a lease that cannot be renewed will be somebody else's: before it is, the work under it
must have ended. What the work is, is left to the reconciler."""

import asyncio
import os
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Self

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.model.content_state import LeaseQuota, Queue, WorkItem, shared_by_all
from content_gateway.pins.availability import Availability
from content_gateway.pins.backoff import ReconcilePolicy

log = structlog.get_logger(__name__)

Renew = Callable[[Sequence[WorkItem], float], Awaitable[set[int]]]


def owner_name() -> str:
    """A name for who leases, which nobody else has: "host:pid:random"."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def lease_quota(
    policy: ReconcilePolicy, under_way: Collection[WorkItem], availability: Availability
) -> LeaseQuota:
    """As many as there are free workers, and in an outage a probe."""
    most = policy.workers
    held = [(item.requestor, item.queue) for item in under_way]
    free = max(0, shared_by_all(most) - len(held))
    queues = Counter(queue for _, queue in held)
    # None of the queues may keep the others waiting for ever.
    retries = max(0, shared_by_all(max(1, most // 2)) - queues[Queue.RETRY])
    slow = max(0, shared_by_all(max(1, most // 4)) - queues[Queue.SLOW])
    if not availability.is_unreachable:
        return LeaseQuota(free, free, retries, slow, held=held)
    probes = 0 if availability.is_backing_off else min(free, 1)
    if availability.is_rejecting_writes:
        # What can be released need not wait; and as a status check alone proves nothing, each queue
        # has a probe.
        return LeaseQuota(free, probes, probes, probes, releases=free, held=held)
    return LeaseQuota(probes, 1, 1, 1, held=held)


class Leases:
    """Leases of *items*, *seconds* long, renewed three times as often between enter and exit."""

    def __init__(self, items: Sequence[WorkItem], renew: Renew, seconds: float) -> None:
        self._items = {item.id: item for item in items}
        self._renew = renew
        self._seconds = seconds
        self._work: dict[int, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None]

    @property
    def remaining(self) -> Sequence[WorkItem]:
        """What was not given back yet."""
        return list(self._items.values())

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._renew_until_cancelled(), name="leases")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def cancel_on_loss(self, item: WorkItem, work: asyncio.Task[None]) -> None:
        """Cancel *work* when the lease of *item*, or its generation, has passed on."""
        self._work[item.id] = work

    def given_back(self, item: WorkItem) -> None:
        """The lease of *item* was given back."""
        self._items.pop(item.id, None)
        self._work.pop(item.id, None)

    async def _renew_until_cancelled(self) -> None:
        now = asyncio.get_running_loop().time
        renewed_at = now()
        while True:
            await asyncio.sleep(self._seconds / 3)
            items = self.remaining
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
