"""The block store: verified blocks in one SQLite file, and which pins need them.

Knows the tables. A block is written together with the word that a pin needs it, so at any moment
a block is garbage exactly when no pin refers to it, and nothing has to be walked to find that
out. What a DAG is, and where blocks come from, is left to the frontier and the retrieval."""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from content_gateway.content.cid import Cid
from content_gateway.errors import OwnFault, PinDeferred
from content_gateway.ipfs.embedded import garbage
from content_gateway.ipfs.embedded.block import matches
from content_gateway.ipfs.embedded.car import Section
from content_gateway.ipfs.embedded.database import BUSY_MS, BlockDatabase
from content_gateway.ipfs.embedded.frontier import Frontier

# AUTOINCREMENT: the id of a pin that is gone never comes back, so that a late write for it is
# noticed. *losses* counts the blocks that a pin has lost: one that loses a block while it is
# brought in must not be called complete.
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS blocks (
        id INTEGER PRIMARY KEY,
        multihash BLOB NOT NULL UNIQUE,
        data BLOB NOT NULL) STRICT""",
    """CREATE TABLE IF NOT EXISTS pins (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        cid BLOB NOT NULL UNIQUE,
        complete INTEGER NOT NULL DEFAULT 0,
        leaving INTEGER NOT NULL DEFAULT 0,
        losses INTEGER NOT NULL DEFAULT 0,
        blocks INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0) STRICT""",
    """CREATE TABLE IF NOT EXISTS refs (
        block INTEGER NOT NULL,
        pin INTEGER NOT NULL,
        PRIMARY KEY (block, pin)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS refs_by_pin ON refs (pin)",
    "CREATE INDEX IF NOT EXISTS pins_leaving ON pins (id) WHERE leaving",
)
# How much one write may look up, so that others get their turn.
_LOOK_UPS: Final = 2_000
_LOOK_UP_BYTES: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 200
_MARKS: Final = ",".join("?" * _AT_ONCE)
_FIND: Final = f"SELECT id, multihash, length(data) FROM blocks WHERE multihash IN ({_MARKS})"  # noqa: S608
_READ: Final = "SELECT data FROM blocks WHERE id = ?"
_RETRY_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A pin's row: *id*, whether the DAG *is_complete*, and the *losses* so far."""

    id: int
    is_complete: bool
    losses: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What one write has led to: blocks that are here now, and those found to be missing.

    Both by multihash; *useful* is how many bytes of what was given belong to the DAG."""

    arrived: Sequence[bytes]
    missing: Mapping[bytes, Cid]
    useful: int = 0


class Blockstore(BlockDatabase):
    """The blocks and pins in the file at *path*; open it with `async with`.

    Owns the task that takes blocks away that no pin needs any more; where it *collects* from the
    beginning, else from `collect` on: who opens it to read takes nothing away."""

    def __init__(self, path: Path, *, busy_ms: int = BUSY_MS, collects: bool = True) -> None:
        super().__init__(path, _SCHEMA, busy_ms=busy_ms)
        self._collects = collects
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

    async def begin(self, cid: Cid) -> Begun:
        """The pin *cid*, made if it is not there."""
        return await self.write(lambda connection: _begin(connection, cid))

    async def keep(self, pin: Begun, frontier: Frontier, sections: Sequence[Section]) -> Kept:
        """Write those of *sections*, which were verified, that *frontier* wants; look up links.

        Raises ValueError as the frontier does, PinDeferred when the pin is gone."""
        return await self.write(lambda connection: _keep(connection, pin, frontier, sections))

    async def finish(self, pin: Begun, frontier: Frontier) -> None:
        """Say durably that the whole DAG is here.

        Raises PinDeferred when the pin has lost a block meanwhile, or is gone."""
        await self.write(lambda connection: _finish(connection, pin, frontier), durable=True)

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
                while await self.write(garbage.take_away):
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


def _begin(connection: sqlite3.Connection, cid: Cid) -> Begun:
    connection.execute("INSERT OR IGNORE INTO pins (cid) VALUES (?)", (bytes(cid),))
    # One that was leaving stays: what is left of it need not be fetched again.
    connection.execute("UPDATE pins SET leaving = 0 WHERE cid = ? AND leaving", (bytes(cid),))
    pin, is_complete, losses = connection.execute(
        "SELECT id, complete, losses FROM pins WHERE cid = ?", (bytes(cid),)
    ).fetchone()
    return Begun(pin, bool(is_complete), losses)


def _check(connection: sqlite3.Connection, pin: Begun) -> None:
    row = connection.execute(
        "SELECT losses FROM pins WHERE id = ? AND NOT leaving", (pin.id,)
    ).fetchone()
    if row is None:
        raise PinDeferred("It was unpinned while it was brought in.")
    if row[0] != pin.losses:
        raise PinDeferred("A block of it was lost while it was brought in; it is fetched again.")


def _keep(
    connection: sqlite3.Connection, pin: Begun, frontier: Frontier, sections: Sequence[Section]
) -> Kept:
    _check(connection, pin)
    new = frontier.accept(sections)
    arrived = _insert(connection, pin, new)
    here, missing = _look_up(connection, pin, frontier)
    return Kept(arrived + here, missing, sum(len(data) for _, data in new))


def _insert(connection: sqlite3.Connection, pin: Begun, new: Sequence[Section]) -> list[bytes]:
    """Write blocks, and that *pin* needs them; their multihashes."""
    arrived = [multihash for multihash, _ in new]
    # What is here already may have rotted, and what has come was verified.
    connection.executemany(
        "INSERT INTO blocks (multihash, data) VALUES (?, ?) ON CONFLICT (multihash)"
        " DO UPDATE SET data = excluded.data WHERE data <> excluded.data",
        new,
    )
    connection.executemany(
        "INSERT OR IGNORE INTO refs SELECT id, ? FROM blocks WHERE multihash = ?",
        [(pin.id, multihash) for multihash in arrived],
    )
    return arrived


def _look_up(
    connection: sqlite3.Connection, pin: Begun, frontier: Frontier
) -> tuple[list[bytes], dict[bytes, Cid]]:
    """Find out whether linked blocks are here, a bounded number; those that are, and are not."""
    here: list[bytes] = []
    missing: dict[bytes, Cid] = {}
    looked_up = read = 0
    while looked_up < _LOOK_UPS and read < _LOOK_UP_BYTES and frontier.has_unread:
        wanted = frontier.unread(_AT_ONCE)
        looked_up += len(wanted)
        padded = wanted + [None] * (_AT_ONCE - len(wanted))
        for block, multihash, size in connection.execute(_FIND, padded).fetchall():
            if frontier.is_leaf(multihash):
                frontier.accept_leaf(multihash, size)
                here.append(multihash)
                connection.execute("INSERT OR IGNORE INTO refs VALUES (?, ?)", (block, pin.id))
                continue
            read += size
            (data,) = connection.execute(_READ, (block,)).fetchone()
            if matches(multihash, data):
                # It may link to blocks that came too early, and can be written now.
                here += _insert(connection, pin, frontier.accept([(multihash, data)]))
            else:
                garbage.drop_rotten(connection, block, but=pin.id)
        missing |= frontier.missing(wanted)
    return here, missing


def _finish(connection: sqlite3.Connection, pin: Begun, frontier: Frontier) -> None:
    _check(connection, pin)
    connection.execute(
        "UPDATE pins SET complete = 1, blocks = ?, size = ? WHERE id = ?",
        (frontier.blocks, frontier.size, pin.id),
    )


def _leave(connection: sqlite3.Connection, cid: Cid) -> bool:
    # Its blocks go from now on: whoever still brings it in must not call it complete.
    changed = connection.execute(
        "UPDATE pins SET leaving = 1, complete = 0, losses = losses + 1 WHERE cid = ?",
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
