"""Pinning: a pin exists from the moment the ledger holds it durably.

Knows that a pin belongs to a requestor, and that many may pin one content; declares the PinLedger
that it writes to. The reconciler asks the backend, and is only woken here: no request waits for
it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from content_gateway.errors import InvalidCid, PinNotFound
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import (
    NO_LABEL,
    Label,
    Page,
    Pin,
    PinStatus,
    Removal,
    Search,
)

T = TypeVar("T")


class PinLedger(Protocol):
    """The requestors' pins. Every method raises StorageUnavailable: then nothing changed, or, where
    a connection to a server broke at that moment, nobody knows whether it has."""

    async def add(
        self, requestor: str, cid: Cid, spelling: str, label: Label, *, most: int = 0
    ) -> Pin | None:
        """Add a pin and make its content due, in one durable transaction.

        None, and nothing changes, if *requestor* holds that CID already. Raises PinLimitReached,
        and nothing changes, if it has *most* pins already; 0 is no limit. So with KeyRefused, if it
        is a key that was revoked."""

    async def relabel(self, requestor: str, cid: Cid, label: Label) -> bool:
        """Replace the label of a pin; False if *requestor* does not hold it."""

    async def replace(
        self, requestor: str, old: Pin, cid: Cid, spelling: str, label: Label
    ) -> Pin | None:
        """Remove *old* and add another pin, in one durable transaction: a new pin even where the
        CID is the same or was held already. None if *old* is not there, and nothing changes."""

    async def remove(
        self, requestor: str, cid: Cid, created_at: datetime | None, *, by_operator: bool
    ) -> Removal | None:
        """Remove a pin durably, if *created_at* is when it was made or None; its content is
        released with its last pin. None if it is not there. *by_operator* is for the audit log."""

    async def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        """The requestor's pin of *cid* and how far its content is; None if there is none."""

    async def search(self, requestor: str, search: Search, shown: Callable[[Page], T]) -> T:
        """The result of *shown*, called in another thread, for the page that *search* finds."""


class PinDenylist(Protocol):
    """The operator's denylist."""

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if the operator does not serve this content."""


class Pinning:
    """Adds, shows and removes pins. Every method raises StorageUnavailable."""

    def __init__(
        self,
        ledger: PinLedger,
        *,
        denylist: PinDenylist,
        wake: Callable[[], None],
        refusal: Callable[[Cid], str | None] | None = None,
        limit_of: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """*refusal(cid)*: why the backend can never pin a CID, or None. Default: it can pin all.
        *limit_of*: how many pins a requestor may have; 0 is no limit."""
        self._limit_of = limit_of
        self._ledger = ledger
        self._denylist = denylist
        self._wake = wake
        self._refusal = refusal

    async def add(self, requestor: str, spelling: str, label: Label = NO_LABEL) -> Pin | None:
        """The new, durable pin of the CID spelt *spelling*; None if *requestor* held it already.

        Raises InvalidCid, Blocked, PinLimitReached and KeyRefused."""
        cid = self._allowed_cid(spelling)
        most = self._limit_of(requestor)
        pin = await self._ledger.add(requestor, cid, spelling, label, most=most)
        if pin is not None:
            self._wake()
        return pin

    async def describe(self, requestor: str, spelling: str, label: Label) -> PinStatus:
        """As `add`, but replaces the label of a pin that exists; returns its status either way.

        Raises InvalidCid, Blocked and PinLimitReached."""
        cid = Cid.parse(spelling)
        while (pin := await self.add(requestor, spelling, label)) is None:
            held = await self._ledger.status(requestor, cid)
            if held is not None and await self._ledger.relabel(requestor, cid, label):
                pin = replace(held.pin, label=label)
                break
            # It was removed since `add`: add it again.
        return await self._ledger.status(requestor, cid) or PinStatus(pin, ContentState.QUEUED)

    async def replace(self, requestor: str, old: Pin, spelling: str, label: Label) -> PinStatus:
        """Replaces *old* by a new pin, maybe of the same CID, and returns the new one's status.

        Raises InvalidCid, Blocked, and PinNotFound when *old* is no longer there."""
        cid = self._allowed_cid(spelling)
        pin = await self._ledger.replace(requestor, old, cid, spelling, label)
        if pin is None:
            raise PinNotFound("No such pin is held.")
        self._wake()
        return await self._ledger.status(requestor, cid) or PinStatus(pin, ContentState.QUEUED)

    def _allowed_cid(self, spelling: str) -> Cid:
        """The CID spelt *spelling*, if it may be pinned. Raises InvalidCid and Blocked."""
        cid = Cid.parse(spelling)
        # Refused now, rather than accepted and then failed for ever.
        if self._refusal is not None and (reason := self._refusal(cid)) is not None:
            raise InvalidCid(f"The content cannot be kept: {reason}.")
        self._denylist.check_cid(cid)
        return cid

    async def remove(
        self,
        requestor: str,
        cid: Cid,
        created_at: datetime | None = None,
        *,
        by_operator: bool = False,
    ) -> Removal:
        """Remove the requestor's pin, at once and durably; raises PinNotFound, also where another
        pin of that CID than the one of *created_at* is there. *by_operator*: it is the operator who
        removes it, and not the requestor."""
        removal = await self._ledger.remove(requestor, cid, created_at, by_operator=by_operator)
        if removal is None:
            raise PinNotFound("No pin of this CID is held.")
        if removal is Removal.RELEASED:
            self._wake()
        return removal

    async def status(self, requestor: str, cid: Cid) -> PinStatus:
        """The requestor's pin of *cid*; raises PinNotFound."""
        status = await self._ledger.status(requestor, cid)
        if status is None:
            raise PinNotFound("No pin of this CID is held.")
        return status

    async def search(self, requestor: str, search: Search, shown: Callable[[Page], T]) -> T:
        """As `PinLedger.search`."""
        return await self._ledger.search(requestor, search, shown)
