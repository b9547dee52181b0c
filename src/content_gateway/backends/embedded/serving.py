"""Reading what is kept: one block, or the CAR of a DAG.

Knows that every block is verified again before it leaves, that a corrupt one is dropped, and that
the denylist is asked again for each piece. Which blocks a CAR has is left to car_walk.py."""

import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.car_walk import CarWalk, FoundCorrupt
from content_gateway.backends.embedded.ingest import drop_if_corrupt, store_links
from content_gateway.backends.embedded.wantlist import Check
from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.errors import Blocked, NotFound, OwnFault
from content_gateway.ipld import car
from content_gateway.ipld.block import matches, multihash_of
from content_gateway.ipld.selection import WHOLE, Selection
from content_gateway.model.cid import Cid

# The links that one CAR may follow: as many as a pin may have, unless the operator allows more.
MAX_LINKS: Final = 1_000_000
_READ: Final = "SELECT id, data FROM blocks WHERE multihash = ?"

log = structlog.get_logger(__name__)


async def read_block(blocks: Blockstore, cid: Cid) -> bytes | None:
    """The block *cid*, verified; None if it is not here, or was corrupt and is dropped now."""
    if cid.hash_code == IDENTITY:
        return cid.digest
    try:
        return await blocks.read(lambda connection: _read(connection, cid))
    except FoundCorrupt as corrupt:
        await _drop(blocks, corrupt)
        return None


async def read_car(
    blocks: Blockstore,
    root: Cid,
    selection: Selection = WHOLE,
    most: int = MAX_LINKS,
    checker: Callable[[], Check | None] = lambda: None,
) -> AsyncGenerator[bytes, None]:
    """The CAR of the *selection* at *root*; raises NotFound when a block is not here, or there are
    more than *most* links in it, and Blocked when a block is, by the list of *checker* then."""
    walk = CarWalk(root, selection, most)
    walk.check = checker()
    piece = await _next(blocks, walk)  # the root is there, before anything is said
    yield car.header(root)
    while piece is not None:
        if piece:
            yield piece
        walk.check = checker()
        piece = await _next(blocks, walk)


async def _next(blocks: Blockstore, walk: CarWalk) -> bytes | None:
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
    except FoundCorrupt as corrupt:
        await _drop(blocks, corrupt)
        raise NotFound(f"The block {corrupt.cid} is not here any more.") from None


async def _drop(blocks: Blockstore, corrupt: FoundCorrupt) -> None:
    log.error("a block is corrupt on disk, and is dropped", cid=str(corrupt.cid))
    multihash = multihash_of(corrupt.cid)
    await blocks.write(partial(drop_if_corrupt, row=corrupt.row, multihash=multihash))


def _read(connection: sqlite3.Connection, cid: Cid) -> bytes | None:
    multihash = multihash_of(cid)
    row: tuple[int, bytes] | None = connection.execute(_READ, (multihash,)).fetchone()
    if row is None:
        return None
    if not matches(multihash, row[1]):
        raise FoundCorrupt(row[0], cid)
    return row[1]
