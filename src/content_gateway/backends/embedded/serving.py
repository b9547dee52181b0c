"""Reading what is kept: one block, or the CAR of a DAG.

Knows the scopes and the order of a CAR (ipfs/specs `trustless-gateway.md`: depth first, parents
before children, no duplicates), and that every block is verified again before it leaves."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import structlog

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.ingest import drop_if_corrupt, load_links, store_links
from content_gateway.backends.embedded.wantlist import Check, Memo
from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.errors import Blocked, NotFound, OwnFault
from content_gateway.ipld import car
from content_gateway.ipld.block import LEAVES, matches, multihash_of
from content_gateway.ipld.node_links import (
    NO_LINKS,
    NodeLinks,
    codec_in,
    multihash_in,
    one_link,
    read_links,
)
from content_gateway.ipld.unixfs import entity_links
from content_gateway.model.cid import DAG_PB, Cid

Scope = Literal["all", "block", "entity"]

_PIECE_BYTES: Final = 512 * 1024
_PIECE_BLOCKS: Final = 500
_PIECE_LINKS: Final = 20_000
# The links that one CAR may follow: as many as a pin may have, unless the operator allows more.
MAX_LINKS: Final = 1_000_000
_MOST_AHEAD: Final = 4 * 1024 * 1024
_SHIFT: Final = 8
_MASK: Final = (1 << _SHIFT) - 1
_ENTITY: Final = -1  # beside a codec: the links that make up the thing itself
_FIND: Final = "SELECT id FROM blocks WHERE multihash = ?"
_DATA: Final = "SELECT data FROM blocks WHERE id = ?"
_READ: Final = "SELECT id, data FROM blocks WHERE multihash = ?"

log = structlog.get_logger(__name__)


class _FoundCorrupt(Exception):
    """The block with that *row* is not what it was."""

    def __init__(self, row: int, cid: Cid) -> None:
        super().__init__()
        self.row = row
        self.cid = cid


async def read_block(blocks: Blockstore, cid: Cid) -> bytes | None:
    """The block *cid*, verified; None if it is not here, or was corrupt and is dropped now."""
    if cid.hash_code == IDENTITY:
        return cid.digest
    try:
        return await blocks.read(lambda connection: _read(connection, cid))
    except _FoundCorrupt as corrupt:
        await _drop(blocks, corrupt)
        return None


async def read_car(
    blocks: Blockstore,
    root: Cid,
    scope: Scope,
    most: int = MAX_LINKS,
    checker: Callable[[], Check | None] = lambda: None,
) -> AsyncGenerator[bytes, None]:
    """The CAR of *root*; raises NotFound when a block is not here, or there are more than *most*
    links in it, and Blocked when a block is, by the list of *checker* at that moment."""
    walk = _Walk(root, scope, most)
    walk.check = checker()
    piece = await _next(blocks, walk)  # the root is there, before anything is said
    yield car.header(root)
    while piece is not None:
        if piece:
            yield piece
        walk.check = checker()
        piece = await _next(blocks, walk)


async def _next(blocks: Blockstore, walk: "_Walk") -> bytes | None:
    try:
        piece = await blocks.send(walk.piece)
        if walk.memos:
            memos, walk.memos = walk.memos, []
            with suppress(OwnFault):  # it is read again next time
                await blocks.write(partial(store_links, memos=memos))
        return piece
    except Blocked as blocked:
        log.warning("a CAR met a blocked block", root=str(walk.root), reason=blocked.detail)
        raise
    except _FoundCorrupt as corrupt:
        await _drop(blocks, corrupt)
        raise NotFound(f"The block {corrupt.cid} is not here any more.") from None


async def _drop(blocks: Blockstore, corrupt: _FoundCorrupt) -> None:
    log.error("a block is corrupt on disk, and is dropped", cid=str(corrupt.cid))
    multihash = multihash_of(corrupt.cid)
    await blocks.write(partial(drop_if_corrupt, row=corrupt.row, multihash=multihash))


def _read(connection: sqlite3.Connection, cid: Cid) -> bytes | None:
    multihash = multihash_of(cid)
    row: tuple[int, bytes] | None = connection.execute(_READ, (multihash,)).fetchone()
    if row is None:
        return None
    if not matches(multihash, row[1]):
        raise _FoundCorrupt(row[0], cid)
    return row[1]


class _SentBlocks:
    """Which blocks a CAR holds already, by their rows: one bit each."""

    def __init__(self) -> None:
        self._bits: dict[tuple[int, int], int] = {}

    def add(self, codec: int, row: int) -> bool:
        """Whether it was not there."""
        place, bit = (codec, row >> _SHIFT), 1 << (row & _MASK)
        bits = self._bits.get(place, 0)
        self._bits[place] = bits | bit
        return not bits & bit


class _Walk:
    """A DAG on its way into a CAR, one piece after the other; belongs to the sender thread.

    *memos* is what was slow to read, and is worth keeping."""

    def __init__(self, root: Cid, scope: Scope, most: int) -> None:
        self.check: Check | None = None
        self._most = most
        self.memos: list[Memo] = []
        self.root = root
        self._scope = scope
        self._levels: list[tuple[Iterator[bytes], int]] | None = None
        self._sent = _SentBlocks()
        self._links = 0
        self._ahead = 0  # bytes of links that were not followed yet, at most

    def piece(self, connection: sqlite3.Connection) -> bytes | None:
        """The next sections; None behind the last one. Raises NotFound and _FoundCorrupt."""
        sections: list[bytes] = []
        size, stop_at = 0, self._links + _PIECE_LINKS
        levels = self._levels if self._levels is not None else self._begun()
        looked_at = 0
        while levels and size < _PIECE_BYTES and len(sections) < _PIECE_BLOCKS:
            if self._links >= stop_at or looked_at >= _PIECE_LINKS:
                break
            looked_at += 1
            ahead, held = levels[-1]
            cid = next(ahead, None)
            if cid is None:
                levels.pop()
                self._ahead -= held
                continue
            section = self._section(connection, cid)
            sections.append(section)
            size += len(section)
        return b"".join(sections) if sections or levels else None

    def _begun(self) -> list[tuple[Iterator[bytes], int]]:
        self._levels = []
        if self.root.hash_code != IDENTITY:
            self._go_below(one_link(self.root, self._most))
        elif self.root.codec not in LEAVES:
            self._go_below(self._read(self.root, self.root.digest))
        return self._levels

    def _section(self, connection: sqlite3.Connection, spelt: bytes) -> bytes:
        """The section of a block, and its links are next; empty if it was sent already."""
        multihash, codec = multihash_in(spelt), codec_in(spelt)
        found = connection.execute(_FIND, (multihash,)).fetchone()
        if found is None:
            raise NotFound(f"The block {Cid.from_bytes(spelt)} is not here.")
        (row,) = found
        if not self._sent.add(codec, row):
            return b""
        cid = Cid.from_bytes(spelt)
        if self.check is not None:
            self.check(cid)
        (data,) = connection.execute(_DATA, (row,)).fetchone() or (None,)
        if data is None:
            raise NotFound(f"The block {cid} is not here any more.")
        if not matches(multihash, data):
            raise _FoundCorrupt(row, cid)
        if codec not in LEAVES and self._scope != "block":
            kind = codec if self._scope == "all" else _ENTITY
            links = load_links(connection, row, kind)
            if links is None:
                links = self._read(cid, data)
                if links.is_sparse(codec, len(data)):
                    self.memos.append((multihash, kind, links))
            self._go_below(links)
        return car.section(cid, data)

    def _read(self, cid: Cid, data: bytes) -> NodeLinks:
        """The links to follow from a block."""
        if self._scope == "block" or (self._scope == "entity" and cid.codec != DAG_PB):
            return NO_LINKS
        try:
            if self._scope == "entity":
                return entity_links(cid, data, self._most)
            return read_links(cid, data, self._most)
        except ValueError as wrong:  # held under another codec, or of one we do not walk
            raise NotFound(f"What is below {cid} is not here: {wrong}.") from wrong

    def _go_below(self, links: NodeLinks) -> None:
        assert self._levels is not None  # noqa: S101 - since `_begun`
        self._links += links.number
        self._ahead += len(links.packed)
        if self._links > self._most or self._ahead > _MOST_AHEAD:
            raise NotFound("It is too large for a CAR: ask for its parts.")
        self._levels.append((iter(links), len(links.packed)))
