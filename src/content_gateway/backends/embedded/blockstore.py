"""The block store: verified blocks in one SQLite file, and which pins refer to them.

A block is stored in one transaction with the reference of the pin that needs it. So a block is
garbage exactly when no pin refers to it, and no DAG is walked to find that out. Knows the order of
the steps in ingest.py and garbage.py; fetching is left to wantlist.py and retrieval.py."""

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
from content_gateway.backends.embedded.ingest import StoredBlock
from content_gateway.backends.embedded.wantlist import Check, Wantlist
from content_gateway.errors import OwnFault
from content_gateway.ipld.car import Section
from content_gateway.model.cid import Cid

_MOST_CHECKED: Final = 10_000
_RETRY_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pin's row: *losses* counts the blocks that it has lost to corruption or unpinning, *blocks*
    and *size* (bytes) those that are stored."""

    id: int
    is_complete: bool
    losses: int
    blocks: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of storing blocks: those that have *arrived*, and links found to be *missing*.

    Both by multihash. *useful* is how many of the given bytes belong to the DAG; *blocks* and
    *size* are what the pin has now, None where nothing was written."""

    arrived: Sequence[bytes]
    missing: Mapping[bytes, Cid]
    useful: int
    blocks: int | None
    size: int | None


class Blockstore(BlockDatabase):
    """The blocks and pins in the file at *path*; open it with `async with`.

    Owns the task that collects garbage. It starts at once where it *collects*, else with `collect`:
    a command that only reads deletes nothing. Where it *is_shared* by several processes of a
    service one of them checkpoints, as with the ledger."""

    def __init__(
        self,
        path: Path,
        *,
        busy_ms: int = BUSY_MS,
        collects: bool = True,
        is_shared: bool = False,
    ) -> None:
        super().__init__(path, busy_ms=busy_ms, is_shared=is_shared)
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
        """Start collecting garbage, first of all what a crash has left half unpinned."""
        if self._collector is None:
            self._unpinned.set()
            self._collector = asyncio.create_task(self._collect(), name="block collector")

    async def begin(self, cid: Cid) -> PinRow:
        """The row of the pin *cid*, created if it is missing."""
        return await self.write(lambda connection: _begin(connection, cid))

    async def store_blocks(
        self,
        pin: PinRow,
        wantlist: Wantlist,
        sections: Sequence[Section],
        *,
        looks_up: bool = True,
    ) -> WriteResult:
        """Store those of *sections*, which were verified, that *wantlist* wants.

        Where it *looks_up*, also find which of their links are stored already. One call at a time
        for a wantlist. Raises ValueError as the wantlist does, PinDeferred when the pin is gone."""
        new: list[Section] = []
        while True:
            accept = partial(ingest.accept, wantlist=wantlist, sections=sections, looks_up=looks_up)
            some, number, found = await self.walk(accept)
            new += some
            if number == len(sections):
                break
            sections = sections[number:]
        # Refer to stored blocks before reading them: from then on they cannot be collected.
        totals = await self._store(pin, wantlist, new, found.blocks)
        missing = [*found.missing, *totals.gone]
        arrived = [multihash for multihash, _ in new]
        for cid, whole in found.complete:
            copied = await self._copy_refs(pin, wantlist, cid, whole)
            if copied is None:
                missing.append(cid)  # it was unpinned meanwhile
            else:
                totals = copied
        for group in ingest.groups(found.blocks):
            step = await self.walk(partial(ingest.read, wantlist=wantlist, blocks=group))
            for row, multihash in step.corrupt:
                drop = partial(ingest.drop_if_corrupt, row=row, multihash=multihash)
                await self.write(partial(drop, but=pin.id))
            if step.unsolicited:
                totals = await self._store(pin, wantlist, step.unsolicited, ())
            missing += step.missing
            arrived += step.arrived
        memos = wantlist.take_memos()
        if memos:
            await self.write(partial(ingest.store_links, memos=memos))
        return WriteResult(
            arrived,
            wantlist.missing(missing),
            sum(len(data) for _, data in new),
            totals.blocks,
            totals.size,
        )

    async def _store(
        self, pin: PinRow, wantlist: Wantlist, new: Sequence[Section], found: Sequence[StoredBlock]
    ) -> ingest.PinTotals:
        """Store *new* blocks, and that *pin* refers to them and those *found*, if there are any."""
        if not (new or found):
            return ingest.PinTotals()
        fetched = ingest.PinInProgress(pin.id, pin.losses, wantlist.limits)
        return await self.write(partial(ingest.store, pin=fetched, new=new, found=found))

    async def _copy_refs(
        self, pin: PinRow, wantlist: Wantlist, cid: bytes, whole: int
    ) -> ingest.PinTotals | None:
        """Have *pin* refer to all that the complete pin *whole*, of *cid*, refers to; None if that
        is gone. The DAG is not walked again: it was found complete before."""
        await self._check_whole(whole, wantlist.check)
        last: int | None = 0
        totals = ingest.PinTotals()
        fetched = ingest.PinInProgress(pin.id, pin.losses, wantlist.limits)
        while last is not None:
            step = await self.write(partial(ingest.copy_refs, pin=fetched, whole=whole, last=last))
            if step is None:
                return None
            last, totals = step
        wantlist.accept_whole(cid)
        return totals

    async def _check_whole(self, whole: int, check: Check | None) -> None:
        """Check every block that the pin *whole* refers to: the denylist may be newer than the pin.

        Once for each version of the list: the blocks of a complete pin do not change."""
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
        """Record durably that the whole DAG is stored.

        Raises PinDeferred when the pin has lost a block meanwhile, or is gone."""
        await self.write(lambda connection: _finish(connection, pin), durable=True)

    async def unpin(self, cid: Cid) -> None:
        """Record durably that *cid* is not pinned; its blocks are deleted in the background."""
        if await self.write(lambda connection: _unpin(connection, cid), durable=True):
            self._unpinned.set()

    async def abandon(self, pin: PinRow) -> None:
        """Unpin *pin*, durably, as it was begun; not where it was completed, or unpinned, since."""
        if await self.write(lambda connection: _abandon(connection, pin), durable=True):
            self._unpinned.set()

    async def complete(self, cids: Sequence[Cid]) -> set[Cid]:
        """Those of *cids* whose whole DAG is stored."""
        return await self.read(lambda connection: _complete(connection, cids))

    async def pins_after(self, last: int, most: int) -> list[tuple[int, Cid]]:
        """At most *most* complete pins with ids above *last*, in order of their ids."""
        return await self.read(lambda connection: _pins_after(connection, last, most))

    async def _collect(self) -> None:
        while True:
            await self._unpinned.wait()
            self._unpinned.clear()
            try:
                while await self.write(garbage.collect_garbage):
                    pass
                while await self.write(garbage.shrink_file):
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
    # Pinned again while it is being unpinned: the blocks that are left need not be fetched again.
    connection.execute("UPDATE pins SET unpinning = 0 WHERE cid = ? AND unpinning", (bytes(cid),))
    pin, is_complete, *numbers = connection.execute(
        "SELECT id, complete, losses, blocks, size FROM pins WHERE cid = ?", (bytes(cid),)
    ).fetchone()
    return PinRow(pin, bool(is_complete), *numbers)


def _finish(connection: sqlite3.Connection, pin: PinRow) -> None:
    ingest.check(connection, pin.id, pin.losses)
    connection.execute("UPDATE pins SET complete = 1 WHERE id = ?", (pin.id,))


def _unpin(connection: sqlite3.Connection, cid: Cid) -> bool:
    # Its blocks may be deleted from now on: a fetch under way must not call it complete (losses).
    changed = connection.execute(
        "UPDATE pins SET unpinning = 1, complete = 0, losses = losses + 1 WHERE cid = ?",
        (bytes(cid),),
    )
    return changed.rowcount > 0


def _abandon(connection: sqlite3.Connection, pin: PinRow) -> bool:
    changed = connection.execute(
        "UPDATE pins SET unpinning = 1, losses = losses + 1"
        " WHERE id = ? AND losses = ? AND NOT complete",
        (pin.id, pin.losses),
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
