"""The part of the ledger that knows what is owed, as the reconciler needs it: a port.

Adapters do not import this; the type checker proves in wiring/ that they fit."""

from collections.abc import Sequence
from typing import Protocol

from content_gateway.model.content_state import Event, LastRequest, LeaseQuota, Outcome, WorkItem


class WorkQueue(Protocol):
    """The part of the ledger that knows what is owed. Methods raise StorageUnavailable."""

    def any_due(self, quota: LeaseQuota) -> bool:
        """Whether a content that *quota* has room for seems to wait; it may be gone by now."""

    def waiting_requestors(self, limit: int) -> Sequence[int]:
        """The numbers of so many requestors at most of whom something waits."""

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """As many due contents as *quota* allows, for *owner* alone for so many *seconds*; in
        turn by requestor."""

    async def renew(self, owner: str, items: Sequence[WorkItem], seconds: float) -> set[int]:
        """Extend *owner*'s leases; the numbers of those that it still has, under the generation
        that it knows."""

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases."""

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        """The clock went *back* so many seconds: what waits, waits as much less. And what waits for
        more than *longest* seconds from now was told so by a clock that was wrong, and is due; what
        is leased for longer than that is leased for *lease* seconds."""

    async def trigger(self, numbers: Sequence[int]) -> None:
        """Make these contents due now, where somebody holds them and nobody reconciles them."""

    async def begin(
        self,
        owner: str,
        item: WorkItem,
        last_request: LastRequest,
        event: Event | None,
        *,
        though_held: bool = False,
    ) -> WorkItem | None:
        """Record *event*, and that *last_request* is about to be asked of the backend, durably; the
        content as it is then.

        None, and nothing may be sent, if lease or generation have passed on, or if an unpin is
        meant and somebody holds the content, but *though_held*."""

    async def progress(self, owner: str, item: WorkItem, blocks: int, size: int) -> None:
        """Keep that the content is being brought in, and how far that is."""

    async def record_outcomes(
        self, owner: str, outcomes: Sequence[tuple[WorkItem, Outcome]]
    ) -> None:
        """Write outcomes and end their leases; nothing is written where *owner* has lost one."""
