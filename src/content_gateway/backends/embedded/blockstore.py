"""The block store: verified blocks in one SQLite file, and which pins need them.

Knows the tables. A block is written together with the word that a pin needs it, so at any moment
a block is garbage exactly when no pin refers to it, and nothing has to be walked to find that
out. What a DAG is, and where blocks come from, is left to the wantlist and the retrieval."""

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

import structlog

from content_gateway.backends.embedded import garbage, ingest
from content_gateway.backends.embedded.database import BUSY_MS, BlockDatabase
from content_gateway.backends.embedded.ingest import Here
from content_gateway.backends.embedded.wantlist import Check, Wantlist
from content_gateway.errors import OwnFault
from content_gateway.ipld.car import Section
from content_gateway.model.cid import Cid

_MOST_CHECKED: Final = 10_000
_RETRY_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pin's row: *id*, whether the DAG *is_complete*, the *losses* so far, and what is here."""

    id: int
    is_complete: bool
    losses: int
    blocks: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What one write has led to: blocks that are here now, and those found to be missing.

    Both by multihash; *useful* is how many bytes of what was given belong to the DAG, *blocks* and
    *size* what the pin has by now: None where nothing was written."""

    arrived: Sequence[bytes]
    missing: Mapping[bytes, Cid]
    useful: int
    blocks: int | None
    size: int | None


class Blockstore(BlockDatabase):
    """The blocks and pins in the file at *path*; open it with `async with`.

    Owns the task that collects garbage that no pin needs any more; where it *collects* from the
    beginning, else from `collect` on: who opens it to read takes nothing away."""

    def __init__(self, path: Path, *, busy_ms: int = BUSY_MS, collects: bool = True) -> None:
        super().__init__(path, busy_ms=busy_ms)
        self._collects = collects
        self._checked: OrderedDict[int, Check] = OrderedDict()
        self._unpinned = asyncio.Event()
        self._collector: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """As the database's."""
        await super().__aenter__()
        if self._collects:
            self.collect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._collector is not None:
            self._collector.cancel()
            with suppress(asyncio.CancelledError):
                await self._collector
        await super().__aexit__(*exc_info)

    def collect(self) -> None:
        """Take away what no pin needs, from now on, and what a crash has left half unpinned."""
        if self._collector is None:
            self._unpinned.set()
            self._collector = asyncio.create_task(self._collect(), name="block collector")

    async def begin(self, cid: Cid) -> PinRow:
        """The pin *cid*, made if it is not there."""
        return await self.write(lambda connection: _begin(connection, cid))

    async def keep(
        self,
        pin: PinRow,
        wantlist: Wantlist,
        sections: Sequence[Section],
        *,
        looks_up: bool = True,
    ) -> WriteResult:
        """Write those of *sections*, which were verified, that *wantlist* wants; where it
        *looks_up*, find out about some links.

        Of one wantlist one call at a time. Raises ValueError as the wantlist does, PinDeferred
        when the pin is gone."""
        new: list[Section] = []
        while True:
            accept = partial(ingest.accept, wantlist=wantlist, sections=sections, looks_up=looks_up)
            some, number, found = await self.walk(accept)
            new += some
            if number == len(sections):
                break
            sections = sections[number:]
        # What is here is referred to before it is read: from then on it cannot go.
        took = await self._store(pin, wantlist, new, found.blocks)
        missing = [*found.missing, *took.gone]
        arrived = [multihash for multihash, _ in new]
        for cid, whole in found.wholes:
            adopted = await self._adopt(pin, wantlist, cid, whole)
            if adopted is None:
                missing.append(cid)  # it was unpinned in this moment
            else:
                took = adopted
        for group in ingest.groups(found.blocks):
            step = await self.walk(partial(ingest.read, wantlist=wantlist, blocks=group))
            for row, multihash in step.corrupt:
                drop = partial(ingest.drop_if_corrupt, row=row, multihash=multihash)
                await self.write(partial(drop, but=pin.id))
            if step.unsolicited:
                took = await self._store(pin, wantlist, step.unsolicited, ())
            missing += step.missing
            arrived += step.arrived
        memos = wantlist.take_memos()
        if memos:
            await self.write(partial(ingest.remember, memos=memos))
        return WriteResult(
            arrived,
            wantlist.missing(missing),
            sum(len(data) for _, data in new),
            took.blocks,
            took.size,
        )

    async def _store(
        self, pin: PinRow, wantlist: Wantlist, new: Sequence[Section], here: Sequence[Here]
    ) -> ingest.Took:
        """Write blocks, and that *pin* needs them and those that are *here*, if there are any."""
        if not (new or here):
            return ingest.Took()
        taker = ingest.Taker(pin.id, pin.losses, wantlist.limits)
        return await self.write(partial(ingest.store, taker=taker, new=new, here=here))

    async def _adopt(
        self, pin: PinRow, wantlist: Wantlist, cid: bytes, whole: int
    ) -> ingest.Took | None:
        """Have *pin* need what the complete pin *whole*, of *cid*, needs; None if that is gone.

        Nothing of it is walked: what was found complete is known to be here."""
        await self._check_whole(whole, wantlist.check)
        last: int | None = 0
        took, taker = ingest.Took(), ingest.Taker(pin.id, pin.losses, wantlist.limits)
        while last is not None:
            step = await self.write(partial(ingest.adopt, taker=taker, whole=whole, last=last))
            if step is None:
                return None
            last, took = step
        wantlist.accept_whole(cid)
        return took

    async def _check_whole(self, whole: int, check: Check | None) -> None:
        """Ask about every block that the pin *whole* needs: the list may be newer than the pin.

        Once for each list: what it said of a complete pin holds while both are the same."""
        if check is None or self._checked.get(whole) is check:
            return
        last: int | None = 0
        while last is not None:
            step = partial(ingest.check_whole, whole=whole, last=last, check=check)
            last = await self.walk(step)
        self._checked[whole] = check
        if len(self._checked) > _MOST_CHECKED:
            self._checked.popitem(last=False)

    async def finish(self, pin: PinRow) -> None:
        """Say durably that the whole DAG is here.

        Raises PinDeferred when the pin has lost a block meanwhile, or is gone."""
        await self.write(lambda connection: _finish(connection, pin), durable=True)

    async def unpin(self, cid: Cid) -> None:
        """Say durably that nobody needs *cid*; its blocks go soon, in the background."""
        if await self.write(lambda connection: _leave(connection, cid), durable=True):
            self._unpinned.set()

    async def complete(self, cids: Sequence[Cid]) -> set[Cid]:
        """Those of *cids* whose whole DAG is here."""
        return await self.read(lambda connection: _complete(connection, cids))

    async def pins_after(self, last: int, most: int) -> list[tuple[int, Cid]]:
        """Complete pins with ids above *last*, in their order."""
        return await self.read(lambda connection: _pins_after(connection, last, most))

    async def _collect(self) -> None:
        while True:
            await self._unpinned.wait()
            self._unpinned.clear()
            try:
                while await self.write(garbage.collect_garbage):
                    pass
                while await self.write(garbage.give_back):
                    pass
            except OwnFault as refused:
                log.warning("unpinned blocks were not removed yet", reason=refused.detail)
            except Exception as bug:
                log.error("unpinned blocks were not removed", exc_info=bug)
            else:
                continue
            self._unpinned.set()
            await asyncio.sleep(_RETRY_SECONDS)


def _begin(connection: sqlite3.Connection, cid: Cid) -> PinRow:
    connection.execute("INSERT OR IGNORE INTO pins (cid) VALUES (?)", (bytes(cid),))
    # One that is being unpinned stays: what is left of it need not be fetched again.
    connection.execute("UPDATE pins SET unpinning = 0 WHERE cid = ? AND unpinning", (bytes(cid),))
    pin, is_complete, *numbers = connection.execute(
        "SELECT id, complete, losses, blocks, size FROM pins WHERE cid = ?", (bytes(cid),)
    ).fetchone()
    return PinRow(pin, bool(is_complete), *numbers)


def _finish(connection: sqlite3.Connection, pin: PinRow) -> None:
    ingest.check(connection, pin.id, pin.losses)
    connection.execute("UPDATE pins SET complete = 1 WHERE id = ?", (pin.id,))


def _leave(connection: sqlite3.Connection, cid: Cid) -> bool:
    # Its blocks go from now on: whoever still brings it in must not call it complete.
    changed = connection.execute(
        "UPDATE pins SET unpinning = 1, complete = 0, losses = losses + 1 WHERE cid = ?",
        (bytes(cid),),
    )
    return changed.rowcount > 0


def _complete(connection: sqlite3.Connection, cids: Sequence[Cid]) -> set[Cid]:
    question = "SELECT 1 FROM pins WHERE cid = ? AND complete"
    return {cid for cid in cids if connection.execute(question, (bytes(cid),)).fetchone()}


def _pins_after(connection: sqlite3.Connection, last: int, most: int) -> list[tuple[int, Cid]]:
    rows = connection.execute(
        "SELECT id, cid FROM pins WHERE complete AND id > ? ORDER BY id LIMIT ?", (last, most)
    ).fetchall()
    return [(pin, Cid.from_bytes(cid)) for pin, cid in rows]
