"""Pinning: the promise. A pin exists from the moment the ledger holds it durably.

Knows that a pin belongs to a requestor and that one content may have many; declares the
PinLedger it writes to. Telling the backend is the reconciler's business, and it is only woken
here: no caller ever waits for a cluster."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from content_gateway.content.cid import Cid
from content_gateway.content.pins import Pin, PinStatus
from content_gateway.errors import PinNotFound


class PinLedger(Protocol):
    """Where promises are kept."""

    async def add(self, requestor: str, pin: Pin) -> bool:
        """Record *pin* and queue its content, in one durable transaction.

        True if it is new; False if *requestor* holds that CID already, and then nothing
        changes. Raises StorageUnavailable, and then nothing was recorded."""

    def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        """The requestor's pin of *cid* and its content's state; None if there is none."""


class Blocking(Protocol):
    """The operator's block list."""

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if this content is not to be pinned."""


class Pinning:
    """Adds and shows pins."""

    def __init__(
        self,
        ledger: PinLedger,
        *,
        blocking: Blocking,
        wake: Callable[[], None],
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._wake = wake
        self._today = today

    async def add(self, requestor: str, spelling: str) -> Pin | None:
        """The new pin of the CID spelt *spelling*, durable; None if *requestor* held it already.

        Raises InvalidCid, Blocked, and StorageUnavailable when nothing could be promised."""
        cid = Cid.parse(spelling)
        self._blocking.check_cid(cid)
        now = self._today()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        pin = Pin(cid, spelling, now)
        if not await self._ledger.add(requestor, pin):
            return None
        self._wake()
        return pin

    def status(self, requestor: str, cid: Cid) -> PinStatus:
        """The requestor's pin of *cid*; raises PinNotFound."""
        status = self._ledger.status(requestor, cid)
        if status is None:
            raise PinNotFound("No pin of this CID is held.")
        return status
