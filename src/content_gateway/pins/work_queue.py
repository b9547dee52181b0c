"""The ledger's work queue, as the reconciler needs it: a port.

Adapters do not import this; the type checker proves in wiring/ that they fit."""

from collections.abc import Sequence
from typing import Protocol

from content_gateway.model.content_state import Event, LastRequest, LeaseQuota, Outcome, WorkItem


class WorkQueue(Protocol):
    """Contents that want reconciling, with their leases. Methods raise StorageUnavailable."""

    async def any_due(self, quota: LeaseQuota) -> bool:
        """Whether something that *quota* allows seems to be due; it may be gone by now."""

    async def waiting_requestors(self, limit: int) -> Sequence[int]:
        """At most *limit* requestors, by number, that have contents in a queue."""

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """Lease as many due contents as *quota* allows to *owner*, for *seconds*, by requestor in
        turn."""

    async def renew(self, owner: str, items: Sequence[WorkItem], seconds: float) -> set[int]:
        """Extend *owner*'s leases; returns the numbers it still has, with the generation it
        knows."""

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases."""

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        """Correct the due times after the clock was set *back* so many seconds: waits end as much
        sooner. A wait of more than *longest* seconds was written by a wrong clock and ends now; a
        lease that long is cut to *lease* seconds."""

    async def trigger(self, numbers: Sequence[int]) -> None:
        """Make those of these contents due now that are held and not leased."""

    async def begin(
        self,
        owner: str,
        item: WorkItem,
        last_request: LastRequest,
        event: Event | None,
        *,
        though_held: bool = False,
    ) -> WorkItem | None:
        """Record *event*, and that *last_request* is about to be sent. Returns the content as it is
        then, once that is durable.

        None, and nothing may be sent, if the lease is lost or the generation has changed; or for
        an unpin of a content that somebody holds, unless *though_held*."""

    async def progress(self, owner: str, item: WorkItem, blocks: int, size: int) -> None:
        """Record that the content is being fetched, and how far that is."""

    async def record_outcomes(
        self, owner: str, outcomes: Sequence[tuple[WorkItem, Outcome]]
    ) -> None:
        """Write *outcomes* and end their leases; skips contents whose lease *owner* has lost."""
