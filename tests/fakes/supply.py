"""Who has which block: what a miniature backend can fetch, and which blocks a DAG is made of.

Reads the links of dag-pb nodes with a parser of its own; other codecs have none here."""

from collections.abc import Iterator, Set

from content_gateway.model.cid import DAG_PB, Cid


class Supply:
    """The blocks that somebody in the world offers."""

    def __init__(self) -> None:
        self._blocks: dict[Cid, bytes] = {}
        self._offered: set[Cid] = set()

    def provide(self, cid: Cid, data: bytes) -> None:
        """From now on somebody has that block."""
        self._blocks[cid] = data
        self._offered.add(cid)

    def forget(self, cid: Cid) -> None:
        """From now on nobody offers that block."""
        self._offered.discard(cid)

    def missing(self, blocks: Set[Cid]) -> Set[Cid]:
        """Those of *blocks* that nobody offers."""
        return blocks - self._offered

    def dag(self, cid: Cid) -> Iterator[Cid]:
        """Every block of that DAG, as far as it is known."""
        yield cid
        if cid.codec == DAG_PB and cid in self._blocks:
            for link in _links(self._blocks[cid]):
                yield from self.dag(link)


def _links(node: bytes) -> Iterator[Cid]:
    """The links of a dag-pb node: its fields 2, and in each of them the field 1."""
    for number, value in _fields(node):
        if number == 2:
            for inner, data in _fields(value):
                if inner == 1:
                    yield Cid.from_bytes(data)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        size, at = _varint(message, at)
        if key & 7 == 0:
            yield key >> 3, b""
        else:
            yield key >> 3, message[at : at + size]
            at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at
