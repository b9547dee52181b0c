"""How many contents may be leased, and the leases of one batch while it is worked on.

A lease that cannot be renewed will be given to another worker, so the work under it is cancelled
before it expires. What is leased is decided by the ledger, what the work is by the reconciler."""

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
    """A unique name for a holder of leases: "host:pid:random"."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def lease_quota(
    policy: ReconcilePolicy, under_way: Collection[WorkItem], availability: Availability
) -> LeaseQuota:
    """How many may be leased now, by queue and requestor; in an outage one probe per backoff."""
    most = policy.workers
    held = [(item.requestor, item.queue) for item in under_way]
    free = max(0, shared_by_all(most) - len(held))
    queues = Counter(queue for _, queue in held)
    # Retries get half of the workers and slow contents a quarter, so no queue can take them all.
    retries = max(0, shared_by_all(max(1, most // 2)) - queues[Queue.RETRY])
    slow = max(0, shared_by_all(max(1, most // 4)) - queues[Queue.SLOW])
    if not availability.is_unreachable:
        return LeaseQuota(free, free, retries, slow, held=held)
    probes = 0 if availability.is_backing_off else min(free, 1)
    if availability.is_rejecting_writes:
        # Releases still work. A status check that is answered proves nothing, and the first content
        # of a queue may need no write: so each queue gets a probe.
        return LeaseQuota(free, probes, probes, probes, releases=free, held=held)
    return LeaseQuota(probes, 1, 1, 1, held=held)


class Leases:
    """Leases of *items*, *seconds* long, renewed every third of that between enter and exit.

    They count from the time at which they were asked for, *since* on the loop's clock: the ledger
    may have given them long before its answer came."""

    def __init__(
        self, items: Sequence[WorkItem], renew: Renew, seconds: float, since: float
    ) -> None:
        self._items = {item.id: item for item in items}
        self._renew = renew
        self._seconds = seconds
        self._since = since
        self._work: dict[int, asyncio.Task[None]] = {}
        self._lost: set[int] = set()
        self._task: asyncio.Task[None]

    @property
    def remaining(self) -> Sequence[WorkItem]:
        """The items whose lease was not given back yet."""
        return list(self._items.values())

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._renew_until_cancelled(), name="leases")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def cancel_on_loss(self, item: WorkItem, work: asyncio.Task[None]) -> None:
        """Cancel *work* when the lease of *item* is lost, or its generation has changed; at once
        if that is so already."""
        if item.id in self._lost:
            work.cancel()
        else:
            self._work[item.id] = work

    def given_back(self, item: WorkItem) -> None:
        """Stop renewing the lease of *item*: its outcome is being recorded."""
        self._items.pop(item.id, None)
        self._work.pop(item.id, None)

    async def _renew_until_cancelled(self) -> None:
        now = asyncio.get_running_loop().time
        asked_at = renewed_at = self._since
        while True:
            await asyncio.sleep(asked_at + self._seconds / 3 - now())
            items, asked_at = self.remaining, now()
            try:
                # Two thirds: the last third is left to end the work before the lease expires.
                async with asyncio.timeout_at(renewed_at + self._seconds * 2 / 3):
                    held = await self._renew(items, self._seconds)
                renewed_at = asked_at
            except StorageUnavailable as wrong:
                log.error("leases could not be renewed", reason=wrong.detail)
                if now() < renewed_at + self._seconds * 2 / 3:
                    continue
                held = set()
            except TimeoutError:
                held = set()
            for item in items:
                if item.id not in held:
                    self._lost.add(item.id)
                    if (work := self._work.pop(item.id, None)) is not None:
                        log.info("a lease has passed on", cid=str(item.cid))
                        work.cancel()
