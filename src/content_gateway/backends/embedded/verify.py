"""Checking what is kept: every block's hash is computed again, and what is corrupt is dropped.

Knows that a pin that has lost a block is complete no more, so that the next status check finds it
absent and brings in what it lacks. Who is told, and when to check, is left to the caller."""

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from content_gateway.backends.embedded import garbage
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.codecs.multiformats import split_multihash
from content_gateway.ipld.block import matches
from content_gateway.model.cid import RAW, Cid

_BLOCKS_AT_ONCE: Final = 64
_SOME_BLOCKS: Final = 2_000
_SOME_REFS: Final = 20_000
_SOME_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CorruptBlock:
    """A block that is not what it was, and the pins that need it.

    *block* is the CID of its hash as a raw block, whatever its pins know it as."""

    block: Cid
    size: int
    pins: Sequence[Cid]


@dataclass(frozen=True, slots=True)
class RepoStat:
    """What is kept: numbers, and the bytes of the file, of which *free_bytes* hold nothing."""

    blocks: int
    pins: int
    incomplete: int
    file_bytes: int
    free_bytes: int


async def verify(
    blocks: Blockstore, progress: Callable[[int, int], None], found: Callable[[CorruptBlock], None]
) -> int:
    """Verify every block, and drop those that are corrupt; how many there were.

    *progress* is told the blocks and bytes that were verified so far, *found* each corrupt block
    once it is dropped. Raises StorageUnavailable when the disk refuses."""
    last = number = size = corrupt = 0
    while True:
        rows = await blocks.read(partial(_batch, last=last))
        if not rows:
            return corrupt
        for row, multihash, length, is_right in rows:
            last, number, size = row, number + 1, size + length
            if is_right:
                continue
            dropped = await blocks.write(partial(_drop, row=row, multihash=multihash), durable=True)
            if dropped is not None:
                corrupt += 1
                found(dropped)
        progress(number, size)


async def verify_some(blocks: Blockstore) -> int:
    """Verify some blocks, at random: a few thousand at most; how many were lost, and are dropped.

    A pin of which a block is missing is found too. Raises StorageUnavailable."""
    last, most = await blocks.read(_somewhere)
    number = size = lost = 0
    for row in await blocks.read(partial(_dangling, first=last)):
        lost += await blocks.write(partial(_drop_dangling, row=row), durable=True)
    while number < _SOME_BLOCKS and size < _SOME_BYTES:
        rows = await blocks.read(partial(_batch, last=last))
        for row, multihash, length, is_right in rows:
            last, number, size = row, number + 1, size + length
            if not is_right:
                await blocks.write(partial(_drop, row=row, multihash=multihash), durable=True)
                lost += 1
        if last >= most:
            break
    return lost


async def stock(blocks: Blockstore) -> RepoStat:
    """How much is kept; raises StorageUnavailable when the disk refuses."""
    return await blocks.read(_stock)


def _somewhere(connection: sqlite3.Connection) -> tuple[int, int]:
    """A place among the blocks, by row, and the last row."""
    (most,) = connection.execute("SELECT coalesce(max(id), 0) FROM blocks").fetchone()
    return (secrets.randbelow(most) if most > _SOME_BLOCKS else 0), most


def _dangling(connection: sqlite3.Connection, first: int) -> list[int]:
    """Rows above *first* that pins need and that are not there."""
    rows = connection.execute(
        "SELECT DISTINCT block FROM (SELECT block FROM refs WHERE block > ? ORDER BY block LIMIT ?)"
        " WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE id = block)",
        (first, _SOME_REFS),
    )
    return [row for (row,) in rows]


def _drop_dangling(connection: sqlite3.Connection, row: int) -> bool:
    """Say of a block's pins that it is not there, if it still is not."""
    if connection.execute("SELECT 1 FROM blocks WHERE id = ?", (row,)).fetchone():
        return False
    garbage.drop_corrupt(connection, row)
    return True


def _batch(connection: sqlite3.Connection, last: int) -> list[tuple[int, bytes, int, bool]]:
    """The next blocks: row, multihash, bytes, and whether they are right."""
    rows = connection.execute(
        "SELECT id, multihash, data FROM blocks WHERE id > ? ORDER BY id LIMIT ?",
        (last, _BLOCKS_AT_ONCE),
    )
    return [
        (row, multihash, len(data), _is_right(multihash, data)) for row, multihash, data in rows
    ]


def _is_right(multihash: bytes, data: bytes) -> bool:
    try:
        return matches(multihash, data) is True
    except ValueError:  # the multihash itself is corrupt
        return False


def _drop(connection: sqlite3.Connection, row: int, multihash: bytes) -> CorruptBlock | None:
    """Take the block away, if it is still there and still corrupt."""
    kept = connection.execute("SELECT multihash, data FROM blocks WHERE id = ?", (row,)).fetchone()
    if kept is None or _is_right(*kept):
        return None
    pins = connection.execute(
        "SELECT cid FROM pins WHERE id IN (SELECT pin FROM refs WHERE block = ?)", (row,)
    ).fetchall()
    garbage.drop_corrupt(connection, row)
    block = Cid(RAW, *split_multihash(multihash))
    return CorruptBlock(block, len(kept[1]), [Cid.from_bytes(cid) for (cid,) in pins])


def _stock(connection: sqlite3.Connection) -> RepoStat:
    def number(question: str) -> int:
        return int(connection.execute(question).fetchone()[0])

    page = number("PRAGMA page_size")
    return RepoStat(
        blocks=number("SELECT count(*) FROM blocks"),
        pins=number("SELECT count(*) FROM pins WHERE complete"),
        incomplete=number("SELECT count(*) FROM pins WHERE NOT complete"),
        file_bytes=page * number("PRAGMA page_count"),
        free_bytes=page * number("PRAGMA freelist_count"),
    )
