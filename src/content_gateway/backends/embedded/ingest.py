"""Taking in what is here: the steps by which a pin comes to need blocks, and a walk goes on.

Knows the tables of the block store. Steps that read and walk belong to the walker thread, steps
that write are short and only write rows: no transaction reads a block's links. The order of the
steps is the block store's business, what belongs to a DAG the wantlist's."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from content_gateway.backends.embedded import garbage
from content_gateway.backends.embedded.wantlist import Check, DagLimits, Memo, Wantlist
from content_gateway.codecs.multiformats import read_varint
from content_gateway.errors import PinDeferred
from content_gateway.ipld.block import LEAVES, matches
from content_gateway.ipld.car import Section
from content_gateway.ipld.node_links import NodeLinks, codec_in, multihash_in
from content_gateway.model.cid import DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid

# How much one step may look up, read or adopt, so that others get their turn.
_LOOK_UPS: Final = 2_000
_AT_ONCE: Final = 200
# Seconds of CPU that blocks are taken in for before others get their turn.
_STEP_SECONDS: Final = 0.05
_READ_BYTES: Final = 512 * 1024
_READ_BLOCKS: Final = 500
_ADOPTED: Final = 2_000
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
# What the pin *whole* needs of one page, and the other pin does not need yet.
_SIZE_OF_NEW: Final = """SELECT count(*), coalesce(sum(length(data)), 0) FROM blocks WHERE id IN (
    SELECT block FROM refs WHERE pin = :whole AND block > :last AND block <= :end AND NOT EXISTS
    (SELECT 1 FROM refs AS own WHERE own.block = refs.block AND own.pin = :pin))"""
_ADOPT: Final = """INSERT OR IGNORE INTO refs SELECT block, :pin FROM refs
    WHERE pin = :whole AND block > :last AND block <= :end"""
_WHOLE: Final = "SELECT id FROM pins WHERE cid = ? AND complete"


class Here(NamedTuple):
    """A wanted block that is here: its CID and how many bytes it has.

    Not its row: one that goes before it is referred to leaves its row to another block."""

    cid: bytes
    size: int


@dataclass(slots=True)
class FoundBlocks:
    """What was looked up: *blocks* that are here, *wholes* of which a complete pin (its id) says
    that all below them is, and what is *missing*."""

    blocks: list[Here] = field(default_factory=list)
    wholes: list[tuple[bytes, int]] = field(default_factory=list)
    missing: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """What was read: multihashes that have *arrived*, CIDs that are *missing*, *corrupt* rows with
    their multihash, and *unsolicited* that belong to the DAG, and are to be written."""

    arrived: list[bytes] = field(default_factory=list)
    missing: list[bytes] = field(default_factory=list)
    corrupt: list[tuple[int, bytes]] = field(default_factory=list)
    unsolicited: list[Section] = field(default_factory=list)


class Taker(NamedTuple):
    """Who takes something in: the id of a pin, the losses it has had, and its *limits*."""

    pin: int
    losses: int
    limits: DagLimits


class Took(NamedTuple):
    """What the pin has by now, None where nothing was written; what was here and is *gone*."""

    blocks: int | None = None
    size: int | None = None
    gone: Sequence[bytes] = ()


class Adopted(NamedTuple):
    """The *last* block that was adopted, None behind the end; what the pin has by now."""

    last: int | None
    took: Took


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
    """Take in as many of *sections* as there is time for; those that are wanted, and how many
    were taken in. Behind the last one, where it *looks_up*, find out about links."""
    accepted: list[Section] = []
    end = time.thread_time() + _STEP_SECONDS
    for number, section in enumerate(sections):
        if time.thread_time() > end:
            return accepted, number, FoundBlocks()
        accepted += wantlist.accept([section])
    found = look_up(connection, wantlist) if looks_up else FoundBlocks()
    return accepted, len(sections), found


def look_up(connection: sqlite3.Connection, wantlist: Wantlist) -> FoundBlocks:
    """Find out whether linked blocks are here, a bounded number."""
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
                    found.wholes.append((cid, whole[0]))
                else:
                    found.blocks.append(Here(cid, size))
        found.missing += [cid for cids in by_hash.values() for cid in cids]
    return found


def groups(blocks: Sequence[Here]) -> Iterator[Sequence[Here]]:
    """*blocks* in groups that one step reads; leaves are not read."""
    group: list[Here] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += block.size if codec_in(block.cid) not in LEAVES else 0
        if size >= _READ_BYTES or len(group) >= _READ_BLOCKS:
            yield group
            group, size = [], 0
    if group:
        yield group


def read(connection: sqlite3.Connection, wantlist: Wantlist, blocks: Iterable[Here]) -> Step:
    """Take in *blocks*, which the pin refers to; what is gone or corrupt is missing."""
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
        links = known_links(connection, row, codec_in(cid))
        if links is not None:
            wantlist.accept_links(cid, links)
            step.arrived.append(multihash)
            continue
        # It may link to blocks that came too early, and can be written now.
        accepted = wantlist.accept([(multihash, data)])
        step.arrived += [each for each, _ in accepted]
        step.unsolicited += accepted[1:]
    return step


def drop_if_corrupt(
    connection: sqlite3.Connection, row: int, multihash: bytes, but: int = 0
) -> None:
    """As garbage.drop_corrupt, where that row is that block still, and corrupt still."""
    found = connection.execute(
        "SELECT data FROM blocks WHERE id = ? AND multihash = ?", (row, multihash)
    ).fetchone()
    if found is not None and not matches(multihash, found[0]):
        garbage.drop_corrupt(connection, row, but=but)


def known_links(connection: sqlite3.Connection, row: int, codec: int) -> NodeLinks | None:
    """The links of a block as they were kept beside it, if they were."""
    kept = connection.execute(_LINKS, (row, codec)).fetchone()
    return NodeLinks(*kept) if kept else None


def remember(connection: sqlite3.Connection, memos: Iterable[Memo]) -> None:
    """Keep the links of blocks beside them."""
    connection.executemany(
        "INSERT OR IGNORE INTO nodes SELECT id, ?, ?, ?, ? FROM blocks WHERE multihash = ?",
        [
            (codec, links.number, links.distinct, links.packed, multihash)
            for multihash, codec, links in memos
        ],
    )


def store(
    connection: sqlite3.Connection, taker: Taker, new: Sequence[Section], here: Sequence[Here]
) -> Took:
    """Write *new* blocks, and that the pin needs them and those that are *here*."""
    pin = taker.pin
    check(connection, pin, taker.losses)
    # What is here already may be corrupt, and what has come was verified.
    connection.executemany(
        "INSERT INTO blocks (multihash, data) VALUES (?, ?) ON CONFLICT (multihash)"
        " DO UPDATE SET data = excluded.data WHERE data <> excluded.data",
        new,
    )
    blocks = size = 0
    gone: list[bytes] = []
    for multihash, data in new:
        if connection.execute(_REFER, (pin, multihash)).rowcount:
            blocks, size = blocks + 1, size + len(data)
    for cid, length in here:
        if connection.execute(_REFER, (pin, multihash_in(cid))).rowcount:
            blocks, size = blocks + 1, size + length
        elif not connection.execute(_IS_HERE, (multihash_in(cid),)).fetchone():
            gone.append(cid)
    return Took(*_count(connection, taker, blocks, size), gone)


def check_whole(connection: sqlite3.Connection, whole: int, last: int, check: Check) -> int | None:
    """Raises what *check* does for a block behind *last* that the pin *whole* needs; the last
    block of this step, None behind the end."""
    page = connection.execute(_HASHES, (whole, last, _CHECKED)).fetchall()
    for _, multihash in page:
        for cid in cids_of(multihash):
            check(cid)
    return page[-1][0] if page else None


def cids_of(multihash: bytes) -> list[Cid]:
    """The CIDs that a block may be known by: which codec it was linked to by is not recorded."""
    code, at = read_varint(multihash)
    _, at = read_varint(multihash, at)
    return [Cid(codec, code, multihash[at:]) for codec in _CODECS]


def adopt(connection: sqlite3.Connection, taker: Taker, whole: int, last: int) -> Adopted | None:
    """Have the pin need some of the blocks behind *last* that the pin *whole* needs.

    None where *whole* is complete no more."""
    check(connection, taker.pin, taker.losses)
    if not connection.execute("SELECT 1 FROM pins WHERE id = ? AND complete", (whole,)).fetchone():
        return None
    end, number = connection.execute(_PAGE, (whole, last, _ADOPTED)).fetchone()
    if not number:
        return Adopted(None, Took(*_count(connection, taker, 0, 0)))
    rows = {"pin": taker.pin, "whole": whole, "last": last, "end": end}
    blocks, size = connection.execute(_SIZE_OF_NEW, rows).fetchone()
    connection.execute(_ADOPT, rows)
    return Adopted(end, Took(*_count(connection, taker, blocks, size)))


def _count(connection: sqlite3.Connection, taker: Taker, blocks: int, size: int) -> tuple[int, int]:
    """What the pin has with *blocks* of *size* bytes more; ValueError where that is too much."""
    limits = taker.limits
    total: tuple[int, int] = connection.execute(
        "UPDATE pins SET blocks = blocks + ?, size = size + ? WHERE id = ? RETURNING blocks, size",
        (blocks, size, taker.pin),
    ).fetchone()
    if total[0] > limits.blocks:
        raise ValueError(f"it has more than {limits.blocks} blocks")
    if total[1] > limits.size:
        raise ValueError(f"it has more than {limits.size} bytes")
    return total
