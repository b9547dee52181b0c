"""Bulk import: adds a pin for each entry, a limited number of them at the same time.

Knows that the ledger commits concurrent writes in groups, and that a pin which exists costs next to
nothing, so that an import which was interrupted is run again. Where entries come from is left to
import_lines.py, import_psa.py and import_car.py, writing pins to the caller."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from content_gateway.errors import Blocked, GatewayError, InvalidCid, StorageUnavailable
from content_gateway.model.pins import NO_LABEL, Label, Pin

UNDER_WAY: Final = 256  # as many as the ledger commits in one group
SHOWN_REFUSALS: Final = 20
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 5.0
_PATIENCE: Final = 300.0

Add = Callable[[str, Label], Awaitable[Pin | None]]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a source says should be pinned, counted from 1; or why it cannot be, in *refusal*."""

    number: int
    cid: str = ""
    label: Label = NO_LABEL
    refusal: str | None = None


@dataclass(slots=True)
class Tally:
    """How far an import is: *read* entries were read, *refusals* are the first that cannot be
    pinned, with the reasons. *obstacle* is why it pauses, None if it does not; *doing*, what else
    there is to say of its progress. *notes* are for people at the end; it *is_whole* unless the
    source has more than it gives."""

    read: int = 0
    added: int = 0
    there: int = 0
    invalid: int = 0
    refusals: list[tuple[int, str]] = field(default_factory=list)
    obstacle: str | None = None
    doing: str = ""
    notes: list[str] = field(default_factory=list)
    is_whole: bool = True

    def refuse(self, number: int, reason: str) -> None:
        """Take note that the entry *number* cannot be pinned."""
        self.invalid += 1
        self.refusals = sorted([*self.refusals, (number, reason)])[:SHOWN_REFUSALS]


class Import:
    """One import through *add*, counted in *tally*; gives up after *patience* seconds of outage."""

    def __init__(self, add: Add, tally: Tally, *, patience: float = _PATIENCE) -> None:
        self.tally = tally
        self._add = add
        self._patience = patience
        self._slots = asyncio.Semaphore(UNDER_WAY)
        self._kept_at = 0.0
        self._broken: GatewayError | None = None

    async def run(self, entries: AsyncIterator[Entry]) -> None:
        """Pin all *entries*; returns when they are kept, and can be called again for more.

        Raises StorageUnavailable after a long outage, GatewayError for entries that cannot be
        read."""
        self._kept_at = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            try:
                await self._hand_out(entries, group)
            except OSError as wrong:
                self._broken = GatewayError(f"The source cannot be read: {wrong.strerror}.")
            except GatewayError as wrong:  # raised here, a TaskGroup would wrap it
                self._broken = wrong
        if self._broken is not None:
            raise self._broken

    async def _hand_out(self, entries: AsyncIterator[Entry], group: asyncio.TaskGroup) -> None:
        async for entry in entries:
            self.tally.read = entry.number
            if entry.refusal is not None:
                self.tally.refuse(entry.number, entry.refusal)
                continue
            await self._slots.acquire()
            if self._broken is not None:
                return
            group.create_task(self._pin(entry))

    async def _pin(self, entry: Entry) -> None:
        try:
            pin = await self._kept(entry.cid, entry.label)
        except InvalidCid as wrong:
            self.tally.refuse(entry.number, wrong.detail)
        except Blocked:
            self.tally.refuse(entry.number, "It is blocked.")
        except GatewayError as wrong:
            self._broken = wrong
        else:
            if pin is None:
                self.tally.there += 1
            else:
                self.tally.added += 1
        finally:
            self._slots.release()

    async def _kept(self, cid: str, label: Label) -> Pin | None:
        """The pin once it is kept; a ledger that cannot is asked again after a pause."""
        clock, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
        while True:
            try:
                pin = await self._add(cid, label)
            except StorageUnavailable as wrong:
                if self._broken is not None or clock() - self._kept_at > self._patience:
                    raise
                self.tally.obstacle = wrong.detail
            else:
                self._kept_at, self.tally.obstacle = clock(), None
                return pin
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the load
            pause = min(2 * pause, _LONGEST_PAUSE)
