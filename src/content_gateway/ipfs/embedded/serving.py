"""Reading what is kept: one block, or the CAR of a DAG.

Knows the scopes and the order of a CAR (ipfs/specs `trustless-gateway.md`: depth first, parents
before children, no duplicates), and that every block is verified again before it leaves. HTTP is
left to whoever serves it."""

import sqlite3
from collections.abc import AsyncGenerator
from typing import Final, Literal

import structlog

from content_gateway.content.cid import DAG_PB, Cid
from content_gateway.content.multiformats import IDENTITY
from content_gateway.errors import NotFound
from content_gateway.ipfs.embedded import car, garbage
from content_gateway.ipfs.embedded.block import LEAVES, matches, multihash_of
from content_gateway.ipfs.embedded.blockstore import Blockstore
from content_gateway.ipfs.embedded.dag import links
from content_gateway.ipfs.embedded.unixfs import entity_links

Scope = Literal["all", "block", "entity"]

_PIECE_BYTES: Final = 512 * 1024
_PIECE_BLOCKS: Final = 500
_READ: Final = "SELECT id, data FROM blocks WHERE multihash = ?"

log = structlog.get_logger(__name__)


class _Rotten(Exception):
    """The block with that *row* is not what it was."""

    def __init__(self, row: int, cid: Cid) -> None:
        super().__init__()
        self.row = row
        self.cid = cid


async def read_block(blocks: Blockstore, cid: Cid) -> bytes | None:
    """The block *cid*, verified; None if it is not here, or was rotten and is dropped now."""
    if cid.hash_code == IDENTITY:
        return cid.digest
    try:
        return await blocks.read(lambda connection: _read(connection, cid))
    except _Rotten as rotten:
        await _drop(blocks, rotten)
        return None


async def read_car(blocks: Blockstore, root: Cid, scope: Scope) -> AsyncGenerator[bytes, None]:
    """The CAR of *root*; raises NotFound when a block is not here."""
    walk = _Walk(root, scope)
    piece = await _next(blocks, walk)  # the root is there, before anything is said
    yield car.header(root)
    while piece is not None:
        yield piece
        piece = await _next(blocks, walk)


async def _next(blocks: Blockstore, walk: "_Walk") -> bytes | None:
    try:
        return await blocks.read(walk.piece)
    except _Rotten as rotten:
        await _drop(blocks, rotten)
        raise NotFound(f"The block {rotten.cid} is not here any more.") from None


async def _drop(blocks: Blockstore, rotten: _Rotten) -> None:
    log.error("a block has rotted on disk, and is dropped", cid=str(rotten.cid))
    await blocks.write(lambda connection: garbage.drop_rotten(connection, rotten.row))


def _read(connection: sqlite3.Connection, cid: Cid) -> bytes | None:
    multihash = multihash_of(cid)
    row: tuple[int, bytes] | None = connection.execute(_READ, (multihash,)).fetchone()
    if row is None:
        return None
    if not matches(multihash, row[1]):
        raise _Rotten(row[0], cid)
    return row[1]


class _Walk:
    """A DAG on its way into a CAR, one piece after the other; belongs to the reader thread."""

    def __init__(self, root: Cid, scope: Scope) -> None:
        self._root = root
        self._scope = scope
        self._ahead = [root]
        self._seen: set[Cid] = set()

    def piece(self, connection: sqlite3.Connection) -> bytes | None:
        """The next sections; None behind the last one. Raises NotFound and _Rotten."""
        sections: list[bytes] = []
        size = 0
        while self._ahead and size < _PIECE_BYTES and len(sections) < _PIECE_BLOCKS:
            cid = self._ahead.pop()
            if cid in self._seen:
                continue
            self._seen.add(cid)
            data: bytes | None = cid.digest
            if cid.hash_code != IDENTITY:
                data = _read(connection, cid)
                if data is None:
                    raise NotFound(f"The block {cid} is not here.")
                sections.append(car.section(cid, data))
                size += len(sections[-1])
            if cid.codec not in LEAVES:
                try:
                    self._ahead += reversed(self._below(cid, data or b""))
                except ValueError as wrong:  # held under another codec, or of one we do not walk
                    raise NotFound(f"What is below {cid} is not here: {wrong}.") from wrong
        return b"".join(sections) if sections or self._ahead else None

    def _below(self, cid: Cid, data: bytes) -> list[Cid]:
        """The links to follow from a block."""
        if self._scope == "block":
            return []
        if self._scope == "entity":
            return entity_links(cid, data) if cid.codec == DAG_PB else []
        return links(cid, data)
