"""Bulk import: adds a pin for each line, a limited number of them at the same time.

Knows the format of a line, and that the ledger commits concurrent writes in groups. Reading lines
is left to lines.py, writing pins to the caller. A pin that exists costs next to nothing, so an
import that was interrupted is run again from the start."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from content_gateway.cli.lines import MAX_LINE
from content_gateway.errors import Blocked, GatewayError, InvalidCid, StorageUnavailable
from content_gateway.model.pins import Label, Pin

UNDER_WAY: Final = 256  # as many as the ledger commits in one group
MAX_NAME: Final = 255
SHOWN_REFUSALS: Final = 20
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 5.0
_PATIENCE: Final = 300.0

Add = Callable[[str, Label], Awaitable[Pin | None]]


@dataclass(slots=True)
class Tally:
    """How far an import is; *lines* were read, and *refusals* are the first that cannot be pinned,
    with the reasons. *obstacle* is why it pauses, None if it does not."""

    lines: int = 0
    added: int = 0
    there: int = 0
    invalid: int = 0
    refusals: list[tuple[int, str]] = field(default_factory=list)
    obstacle: str | None = None

    def refuse(self, number: int, reason: str) -> None:
        """Take note that the line *number* cannot be pinned."""
        self.invalid += 1
        self.refusals = sorted([*self.refusals, (number, reason)])[:SHOWN_REFUSALS]


def parse_line(line: bytes | None) -> tuple[str, str | None] | None:
    """The CID and the name on a line, None for one that says nothing; ValueError says what is
    wrong with it. The CID itself is not checked."""
    if line is None:
        raise ValueError(f"It has more than {MAX_LINE} bytes.")
    try:
        text = line.decode().removeprefix("\ufeff").strip()
    except UnicodeDecodeError:
        raise ValueError("It is not UTF-8.") from None
    if not text or text.startswith("#"):
        return None
    cid, *names = text.split(None, 1)
    name = names[0] if names else None
    if name is not None and len(name) > MAX_NAME:
        raise ValueError(f"The name has more than {MAX_NAME} characters.")
    if name is not None and "\0" in name:
        raise ValueError("The name has a NUL in it.")
    return cid, name


class Import:
    """One import through *add*, counted in *tally*; gives up after *patience* seconds of outage."""

    def __init__(self, add: Add, tally: Tally, *, patience: float = _PATIENCE) -> None:
        self.tally = tally
        self._add = add
        self._patience = patience
        self._slots = asyncio.Semaphore(UNDER_WAY)
        self._kept_at = 0.0
        self._broken: GatewayError | None = None

    async def run(self, lines: AsyncIterator[tuple[int, bytes | None]]) -> None:
        """Pin what is on *lines*; returns when all of it is kept.

        Raises StorageUnavailable after a long outage, GatewayError for lines that cannot be
        read."""
        self._kept_at = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            try:
                await self._hand_out(lines, group)
            except OSError as wrong:
                self._broken = GatewayError(f"The lines cannot be read: {wrong.strerror}.")
        if self._broken is not None:
            raise self._broken

    async def _hand_out(
        self, lines: AsyncIterator[tuple[int, bytes | None]], group: asyncio.TaskGroup
    ) -> None:
        async for number, line in lines:
            self.tally.lines = number
            try:
                parsed = parse_line(line)
            except ValueError as wrong:
                self.tally.refuse(number, str(wrong))
                continue
            if parsed is None:
                continue
            await self._slots.acquire()
            if self._broken is not None:
                return
            group.create_task(self._pin(number, *parsed))

    async def _pin(self, number: int, cid: str, name: str | None) -> None:
        try:
            pin = await self._kept(cid, Label(name))
        except InvalidCid as wrong:
            self.tally.refuse(number, wrong.detail)
        except Blocked:
            self.tally.refuse(number, "It is blocked.")
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
