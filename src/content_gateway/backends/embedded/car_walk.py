"""A DAG on its way into a CAR: which block is next, depth first, parents before children.

Knows what of the DAG is selected (ipld/selection.py), that what was sent whole is sent once, and
the bounds of one CAR: its links, those ahead, and how much is read for one piece. Belongs to the
sender thread; what comes of an error is left to serving.py."""

import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from content_gateway.backends.embedded.ingest import load_links
from content_gateway.backends.embedded.wantlist import Check, Memo
from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.errors import NotFound
from content_gateway.ipld import car
from content_gateway.ipld.block import LEAVES, matches, multihash_of
from content_gateway.ipld.node_links import (
    NO_LINKS,
    USUAL_LENGTH,
    NodeLinks,
    canonical,
    codec_in,
    multihash_in,
    one_link,
    read_links,
)
from content_gateway.ipld.selection import FilePart, Selection
from content_gateway.ipld.unixfs import entity_links, span_links
from content_gateway.model.cid import DAG_PB, Cid

_PIECE_BYTES: Final = 512 * 1024
_PIECE_BLOCKS: Final = 500
_PIECE_LINKS: Final = 20_000
_MOST_AHEAD: Final = 4 * 1024 * 1024
_SHIFT: Final = 8
_MASK: Final = (1 << _SHIFT) - 1
_ENTITY: Final = -1  # beside a codec: the links that make up the thing itself
_FIND: Final = "SELECT id FROM blocks WHERE multihash = ?"
_DATA: Final = "SELECT data FROM blocks WHERE id = ?"

_Link: TypeAlias = bytes | FilePart
"""A binary CID, as it is spelt, whose DAG the scope selects, or a part of a file: of one without
bytes the block alone."""


class FoundCorrupt(Exception):
    """The block with that *row* is not what it was."""

    def __init__(self, row: int, cid: Cid) -> None:
        super().__init__()
        self.row = row
        self.cid = cid


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

    def has(self, codec: int, row: int) -> bool:
        """Whether it is there."""
        return bool(self._bits.get((codec, row >> _SHIFT), 0) >> (row & _MASK) & 1)


class CarWalk:
    """The *selection* at *root*, one piece after the other; *most* links at most are followed.

    *check* is asked about each block. *memos* is what was slow to read, and is worth keeping."""

    def __init__(self, root: Cid, selection: Selection, most: int) -> None:
        self.check: Check | None = None
        self.memos: list[Memo] = []
        self.root = root
        self._most = most
        self._selected = selection
        self._levels: list[tuple[Iterator[_Link], int]] | None = None
        self._sent = _SentBlocks()
        # Blocks on the way, and nodes at the two edges of a span, which may come again as a whole.
        self._sent_for_a_part: set[tuple[int, int]] = set()
        self._links = 0
        self._ahead = 0  # bytes of links that were not followed yet, at most

    def piece(self, connection: sqlite3.Connection) -> bytes | None:
        """The next sections; None behind the last one. Raises NotFound and FoundCorrupt."""
        sections: list[bytes] = []
        size, stop_at = 0, self._links + _PIECE_LINKS
        levels = self._levels if self._levels is not None else self._begun()
        looked_at = 0
        while levels and size < _PIECE_BYTES and len(sections) < _PIECE_BLOCKS:
            if self._links >= stop_at or looked_at >= _PIECE_LINKS:
                break
            looked_at += 1
            ahead, held = levels[-1]
            link = next(ahead, None)
            if link is None:
                levels.pop()
                self._ahead -= held
                continue
            section = self._section(connection, link)
            sections.append(section)
            size += len(section)
        return b"".join(sections) if sections or levels else None

    def _begun(self) -> list[tuple[Iterator[_Link], int]]:
        self._levels = []
        spelt, span = self.root.spelt, self._selected.span
        link = spelt if span is None else FilePart(spelt, *span)
        if self.root.hash_code != IDENTITY:
            self._go_below(one_link(self.root, self._most) if span is None else [link])
        elif self.root.codec not in LEAVES:
            self._go_below(self._below(link, self.root, self.root.digest))
        # What is added last is sent first.
        self._go_below([FilePart(cid.spelt, 0, 0) for cid in self._selected.way])
        return self._levels

    def _section(self, connection: sqlite3.Connection, link: _Link) -> bytes:
        """The section of a block, and its links are next; empty if it was sent already."""
        spelt = link if isinstance(link, bytes) else link.cid
        binary = canonical(spelt)
        multihash, codec = multihash_in(binary), codec_in(binary)
        found = connection.execute(_FIND, (multihash,)).fetchone()
        if found is None:
            raise NotFound(f"The block {Cid.from_bytes(spelt)} is not here.")
        (row,) = found
        is_sent, is_done = self._count(link, codec, row)
        if is_done:
            return b""
        cid = Cid.from_bytes(spelt)
        if self.check is not None:
            self.check(cid)
        (data,) = connection.execute(_DATA, (row,)).fetchone() or (None,)
        if data is None:
            raise NotFound(f"The block {cid} is not here any more.")
        if not matches(multihash, data):
            raise FoundCorrupt(row, cid)
        if codec not in LEAVES:
            self._go_below(self._links_of(connection, row, link, cid, data))
        return b"" if is_sent else car.section(spelt, data)

    def _count(self, link: _Link, codec: int, row: int) -> tuple[bool, bool]:
        """Whether the block was sent before, and whether so was all that is wanted of it."""
        if self._selected.repeats:
            return False, False
        key = codec, row
        was_part = key in self._sent_for_a_part
        if isinstance(link, bytes):
            is_done = not self._sent.add(codec, row)
            return was_part or is_done, is_done
        self._sent_for_a_part.add(key)
        is_done = self._sent.has(codec, row)
        return was_part or is_done, is_done

    def _links_of(
        self, connection: sqlite3.Connection, row: int, link: _Link, cid: Cid, data: bytes
    ) -> NodeLinks | list[_Link]:
        """As `_below`, from what was stored beside the block if it was."""
        is_stored = isinstance(link, bytes) and not self._selected.repeats
        if not is_stored or self._selected.scope == "block":
            return self._below(link, cid, data)
        kind = cid.codec if self._selected.scope == "all" else _ENTITY
        links = load_links(connection, row, kind)
        if links is None:
            links = self._read(cid, data)
            if links.is_sparse(cid.codec, len(data)):
                self.memos.append((multihash_of(cid), kind, links))
        return links

    def _below(self, link: _Link, cid: Cid, data: bytes) -> NodeLinks | list[_Link]:
        """What to follow from a block."""
        if isinstance(link, bytes):
            return self._read(cid, data)
        try:
            return list(span_links(link, data)) if link.start < link.stop else []
        except ValueError as wrong:
            raise NotFound(f"The bytes below {cid} cannot be told apart: {wrong}.") from wrong

    def _read(self, cid: Cid, data: bytes) -> NodeLinks:
        """The links to follow from a block whose DAG the scope selects."""
        scope, repeats = self._selected.scope, self._selected.repeats
        if scope == "block" or (scope == "entity" and cid.codec != DAG_PB):
            return NO_LINKS
        try:
            if scope == "entity":
                return entity_links(cid, data, self._most, repeats=repeats)
            return read_links(cid, data, self._most, repeats=repeats)
        except ValueError as wrong:  # held under another codec, or of one we do not walk
            raise NotFound(f"What is below {cid} is not here: {wrong}.") from wrong

    def _go_below(self, links: NodeLinks | list[_Link]) -> None:
        assert self._levels is not None  # noqa: S101 - since `_begun`
        ahead: Iterator[_Link]
        if isinstance(links, NodeLinks):
            ahead, number, size = links.spelt(), links.number, len(links.packed)
        else:
            ahead, number, size = iter(links), len(links), len(links) * USUAL_LENGTH
        self._links += number
        self._ahead += size
        if self._links > self._most or self._ahead > _MOST_AHEAD:
            raise NotFound("It is too large for a CAR: ask for its parts.")
        self._levels.append((ahead, size))
