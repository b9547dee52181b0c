"""The steps by which blocks are stored and referenced by a pin, and its DAG is walked further.

Knows the tables of the block store. Steps that read belong to the walker thread. Steps that write
only write rows and are short: none reads the links of a block within a transaction. The order of
the steps is left to blockstore.py, which blocks belong to a DAG to wantlist.py."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from content_gateway.backends.embedded import garbage
from content_gateway.backends.embedded.wantlist import Check, DagLimits, Memo, Wantlist
from content_gateway.codecs.multiformats import split_multihash
from content_gateway.errors import PinDeferred
from content_gateway.ipld.block import LEAVES, matches
from content_gateway.ipld.car import Section
from content_gateway.ipld.node_links import NodeLinks, codec_in, multihash_in
from content_gateway.model.cid import DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid

# How much one step may look up, read or copy, so that the thread serves others too.
_LOOK_UPS: Final = 2_000
_AT_ONCE: Final = 200
# Seconds of CPU for blocks of one pin before the thread serves others.
_STEP_SECONDS: Final = 0.05
_READ_BYTES: Final = 512 * 1024
_READ_BLOCKS: Final = 500
_COPIED: Final = 2_000
_CHECKED: Final = 500
_CODECS: Final = (RAW, DAG_PB, DAG_CBOR, DAG_JSON)
_MARKS: Final = ",".join("?" * _AT_ONCE)
_FIND: Final = f"SELECT multihash, length(data) FROM blocks WHERE multihash IN ({_MARKS})"  # noqa: S608
_READ: Final = "SELECT id, data FROM blocks WHERE multihash = ?"
_IS_HERE: Final = "SELECT 1 FROM blocks WHERE multihash = ?"
_LINKS: Final = "SELECT number, targets, packed FROM nodes WHERE block = ? AND codec = ?"
_REFER: Final = "INSERT OR IGNORE INTO refs SELECT id, ? FROM blocks WHERE multihash = ?"
_HASHES: Final = """SELECT id, multihash FROM refs JOIN blocks ON blocks.id = refs.block
    WHERE refs.pin = ? AND refs.block > ? ORDER BY refs.block LIMIT ?"""
_PAGE: Final = (
    "SELECT max(block), count(*) FROM"
    " (SELECT block FROM refs WHERE pin = ? AND block > ? ORDER BY block LIMIT ?)"
)
# The blocks of one page that the complete pin *whole* refers to and *pin* does not yet.
_SIZE_OF_NEW: Final = """SELECT count(*), coalesce(sum(length(data)), 0) FROM blocks WHERE id IN (
    SELECT block FROM refs WHERE pin = :whole AND block > :last AND block <= :end AND NOT EXISTS
    (SELECT 1 FROM refs AS own WHERE own.block = refs.block AND own.pin = :pin))"""
_COPY_REFS: Final = """INSERT OR IGNORE INTO refs SELECT block, :pin FROM refs
    WHERE pin = :whole AND block > :last AND block <= :end"""
_WHOLE: Final = "SELECT id FROM pins WHERE cid = ? AND complete"


class StoredBlock(NamedTuple):
    """A wanted block that was found: its CID and its size in bytes.

    Not its row id: if it is deleted before the pin refers to it, another block may get that id."""

    cid: bytes
    size: int


@dataclass(slots=True)
class FoundBlocks:
    """The result of a look-up: *blocks* that are stored, roots of *complete* pins (CID, pin id),
    below which everything is stored, and CIDs that are *missing*."""

    blocks: list[StoredBlock] = field(default_factory=list)
    complete: list[tuple[bytes, int]] = field(default_factory=list)
    missing: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """The result of reading blocks: multihashes that *arrived*, CIDs that are *missing*, *corrupt*
    rows with their multihash, and *unsolicited* blocks that turned out to belong to the DAG."""

    arrived: list[bytes] = field(default_factory=list)
    missing: list[bytes] = field(default_factory=list)
    corrupt: list[tuple[int, bytes]] = field(default_factory=list)
    unsolicited: list[Section] = field(default_factory=list)


class PinInProgress(NamedTuple):
    """A pin whose DAG is being fetched: its row's *id*, its *losses* then, and its *limits*."""

    id: int
    losses: int
    limits: DagLimits


class PinTotals(NamedTuple):
    """How many *blocks* of which *size* (bytes) the pin has now, None where nothing was written;
    and which CIDs were stored a moment ago and are *gone*."""

    blocks: int | None = None
    size: int | None = None
    gone: Sequence[bytes] = ()


class CopiedRefs(NamedTuple):
    """The *last* block whose reference was copied, None after the end; and what the pin has now."""

    last: int | None
    totals: PinTotals


def check(connection: sqlite3.Connection, pin: int, losses: int) -> None:
    """Raises PinDeferred when *pin* is gone, or has lost a block since it had *losses*."""
    row = connection.execute(
        "SELECT losses FROM pins WHERE id = ? AND NOT unpinning", (pin,)
    ).fetchone()
    if row is None:
        raise PinDeferred("It was unpinned while it was brought in.")
    if row[0] != losses:
        raise PinDeferred("A block of it was lost while it was brought in; it is fetched again.")


def accept(
    connection: sqlite3.Connection, wantlist: Wantlist, sections: Sequence[Section], looks_up: bool
) -> tuple[list[Section], int, FoundBlocks]:
    """Give *wantlist* as many of *sections* as there is time for.

    Returns those that are wanted, how many were given, and, after the last one and where it
    *looks_up*, which of the links are stored already."""
    accepted: list[Section] = []
    end = time.thread_time() + _STEP_SECONDS
    for number, section in enumerate(sections):
        if time.thread_time() > end:
            return accepted, number, FoundBlocks()
        accepted += wantlist.accept([section])
    found = look_up(connection, wantlist) if looks_up else FoundBlocks()
    return accepted, len(sections), found


def look_up(connection: sqlite3.Connection, wantlist: Wantlist) -> FoundBlocks:
    """Which of the linked blocks are stored; a bounded number of them."""
    found = FoundBlocks()
    looked_up = 0
    while looked_up < _LOOK_UPS and wantlist.has_unread:
        cids = wantlist.unread(_AT_ONCE)
        looked_up += len(cids)
        by_hash: dict[bytes, list[bytes]] = {}
        for cid in cids:
            by_hash.setdefault(multihash_in(cid), []).append(cid)
        hashes: list[bytes | None] = [*by_hash, *[None] * (_AT_ONCE - len(by_hash))]
        for multihash, size in connection.execute(_FIND, hashes).fetchall():
            for cid in by_hash.pop(multihash):
                whole = None
                if codec_in(cid) not in LEAVES:
                    whole = connection.execute(_WHOLE, (cid,)).fetchone()
                if whole:
                    found.complete.append((cid, whole[0]))
                else:
                    found.blocks.append(StoredBlock(cid, size))
        found.missing += [cid for cids in by_hash.values() for cid in cids]
    return found


def groups(blocks: Sequence[StoredBlock]) -> Iterator[Sequence[StoredBlock]]:
    """*blocks* in groups that one step reads. Leaves count nothing: they are not read."""
    group: list[StoredBlock] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += block.size if codec_in(block.cid) not in LEAVES else 0
        if size >= _READ_BYTES or len(group) >= _READ_BLOCKS:
            yield group
            group, size = [], 0
    if group:
        yield group


def read(connection: sqlite3.Connection, wantlist: Wantlist, blocks: Iterable[StoredBlock]) -> Step:
    """Read the links of *blocks*, which the pin refers to; a corrupt block is missing too."""
    step = Step()
    for cid, _ in blocks:
        if not wantlist.is_wanted(cid):
            continue
        multihash = multihash_in(cid)
        if codec_in(cid) in LEAVES:
            if connection.execute(_IS_HERE, (multihash,)).fetchone():
                wantlist.accept_whole(cid)
                step.arrived.append(multihash)
            else:
                step.missing.append(cid)
            continue
        row, data = connection.execute(_READ, (multihash,)).fetchone() or (0, None)
        if data is None or not matches(multihash, data):
            step.missing.append(cid)
            step.corrupt += [] if data is None else [(row, multihash)]
            continue
        links = load_links(connection, row, codec_in(cid))
        if links is not None:
            wantlist.accept_links(cid, links)
            step.arrived.append(multihash)
            continue
        # It may link to blocks that arrived before it and were set aside.
        accepted = wantlist.accept([(multihash, data)])
        step.arrived += [each for each, _ in accepted]
        step.unsolicited += accepted[1:]
    return step


def drop_if_corrupt(
    connection: sqlite3.Connection, row: int, multihash: bytes, but: int = 0
) -> None:
    """As garbage.drop_corrupt, if *row* still is that block and still corrupt."""
    found = connection.execute(
        "SELECT data FROM blocks WHERE id = ? AND multihash = ?", (row, multihash)
    ).fetchone()
    if found is not None and not matches(multihash, found[0]):
        garbage.drop_corrupt(connection, row, but=but)


def load_links(connection: sqlite3.Connection, row: int, codec: int) -> NodeLinks | None:
    """The links of a block, if they were stored beside it."""
    stored = connection.execute(_LINKS, (row, codec)).fetchone()
    return NodeLinks(*stored) if stored else None


def store_links(connection: sqlite3.Connection, memos: Iterable[Memo]) -> None:
    """Store the links of blocks beside them, so that the blocks need not be read again."""
    connection.executemany(
        "INSERT OR IGNORE INTO nodes SELECT id, ?, ?, ?, ? FROM blocks WHERE multihash = ?",
        [
            (codec, links.number, links.distinct, links.packed, multihash)
            for multihash, codec, links in memos
        ],
    )


def store(
    connection: sqlite3.Connection,
    pin: PinInProgress,
    new: Sequence[Section],
    found: Sequence[StoredBlock],
) -> PinTotals:
    """Store *new* blocks, and that *pin* refers to them and to those that were *found*."""
    check(connection, pin.id, pin.losses)
    # A stored copy may be corrupt, while the new one was verified.
    connection.executemany(
        "INSERT INTO blocks (multihash, data) VALUES (?, ?) ON CONFLICT (multihash)"
        " DO UPDATE SET data = excluded.data WHERE data <> excluded.data",
        new,
    )
    blocks = size = 0
    gone: list[bytes] = []
    for multihash, data in new:
        if connection.execute(_REFER, (pin.id, multihash)).rowcount:
            blocks, size = blocks + 1, size + len(data)
    for cid, length in found:
        if connection.execute(_REFER, (pin.id, multihash_in(cid))).rowcount:
            blocks, size = blocks + 1, size + length
        elif not connection.execute(_IS_HERE, (multihash_in(cid),)).fetchone():
            gone.append(cid)
    return PinTotals(*_count(connection, pin, blocks, size), gone)


def check_whole(connection: sqlite3.Connection, whole: int, last: int, check: Check) -> int | None:
    """Call *check*, which may raise, for a page of the blocks that the pin *whole* refers to.

    The page begins after block *last*; returns its last block, None after the end."""
    page = connection.execute(_HASHES, (whole, last, _CHECKED)).fetchall()
    for _, multihash in page:
        for cid in cids_of(multihash):
            check(cid)
    return page[-1][0] if page else None


def cids_of(multihash: bytes) -> list[Cid]:
    """The CIDs that a block may have: the codec by which it was linked is not recorded."""
    code, digest = split_multihash(multihash)
    return [Cid(codec, code, digest) for codec in _CODECS]


def copy_refs(
    connection: sqlite3.Connection, pin: PinInProgress, whole: int, last: int
) -> CopiedRefs | None:
    """Have *pin* refer to a page of the blocks after *last* that the pin *whole* refers to.

    None where *whole* is not complete any more."""
    check(connection, pin.id, pin.losses)
    if not connection.execute("SELECT 1 FROM pins WHERE id = ? AND complete", (whole,)).fetchone():
        return None
    end, number = connection.execute(_PAGE, (whole, last, _COPIED)).fetchone()
    if not number:
        return CopiedRefs(None, PinTotals(*_count(connection, pin, 0, 0)))
    rows = {"pin": pin.id, "whole": whole, "last": last, "end": end}
    blocks, size = connection.execute(_SIZE_OF_NEW, rows).fetchone()
    connection.execute(_COPY_REFS, rows)
    return CopiedRefs(end, PinTotals(*_count(connection, pin, blocks, size)))


def _count(
    connection: sqlite3.Connection, pin: PinInProgress, blocks: int, size: int
) -> tuple[int, int]:
    """Add *blocks* of *size* bytes to the pin's totals; raises ValueError above its limits."""
    limits = pin.limits
    total: tuple[int, int] = connection.execute(
        "UPDATE pins SET blocks = blocks + ?, size = size + ? WHERE id = ? RETURNING blocks, size",
        (blocks, size, pin.id),
    ).fetchone()
    if total[0] > limits.blocks:
        raise ValueError(f"it has more than {limits.blocks} blocks")
    if total[1] > limits.size:
        raise ValueError(f"it has more than {limits.size} bytes")
    return total
