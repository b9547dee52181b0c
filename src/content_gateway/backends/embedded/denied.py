"""What is kept although it is blocked: a list may have changed since the pin was made.

Knows how a block is asked about whose codec is not recorded. What is found is served to nobody;
whether its pins are released is the operator's business."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.ingest import cids_of
from content_gateway.backends.embedded.wantlist import Check
from content_gateway.errors import Blocked
from content_gateway.model.cid import Cid

_BLOCKS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Denied:
    """A block that is blocked, by the first CID that is, and the pins that need it."""

    block: Cid
    pins: Sequence[Cid]


async def denied(blocks: Blockstore, check: Check, found: Callable[[Denied], None]) -> int:
    """Ask *check* about every block, and tell *found* of those that are blocked; how many.

    Raises StorageUnavailable when the disk refuses."""
    last: int | None = 0
    number = 0
    while last is not None:
        last, these = await blocks.walk(partial(_page, last=last, check=check))
        number += len(these)
        for each in these:
            found(each)
    return number


def _page(
    connection: sqlite3.Connection, last: int, check: Check
) -> tuple[int | None, list[Denied]]:
    """The last block of this page, None behind the end, and those that are blocked."""
    rows = connection.execute(
        "SELECT id, multihash FROM blocks WHERE id > ? ORDER BY id LIMIT ?",
        (last, _BLOCKS_AT_ONCE),
    ).fetchall()
    found = []
    for row, multihash in rows:
        cid = _blocked(multihash, check)
        if cid is not None:
            pins = connection.execute(
                "SELECT cid FROM pins WHERE id IN (SELECT pin FROM refs WHERE block = ?)", (row,)
            )
            found.append(Denied(cid, [Cid.from_bytes(pin) for (pin,) in pins]))
    return (rows[-1][0] if rows else None), found


def _blocked(multihash: bytes, check: Check) -> Cid | None:
    for cid in cids_of(multihash):
        try:
            check(cid)
        except Blocked:
            return cid
    return None
