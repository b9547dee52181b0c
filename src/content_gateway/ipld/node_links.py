"""What a node links to, as a walk needs it: how many links it has, and where they lead, each once.

Knows that a CID may hold its own block (an identity multihash): such a block is read here, in
place, and what it links to counts as linked by the block around it; one without links is nothing
to follow. Every link counts, also those, since each is work. Does no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from content_gateway.codecs.multiformats import IDENTITY, SHA2_256, framed, read_varint
from content_gateway.ipld.block import LEAVES, refusal
from content_gateway.ipld.links import spelt_links
from content_gateway.model.cid import DAG_PB, RAW, Cid

# Most links: version 1, raw or dag-pb, sha2-256, 32 bytes.
USUAL_LENGTH: Final = 36
_USUAL_HEADS: Final = frozenset(bytes((1, codec, SHA2_256, 32)) for codec in (RAW, DAG_PB))
_V0_HEAD: Final = bytes((SHA2_256, 32))
_V0_LENGTH: Final = 34
_V0_CODEC: Final = bytes((1, DAG_PB))
# A raw block inside its CID, up to the length of its digest.
_RAW_INSIDE: Final = bytes((1, RAW, IDENTITY))
_ONE_BYTE: Final = 0x80
# From so many links that lead nowhere new, what was read is kept beside the block.
_SPARSE: Final = 64
_LARGE: Final = 1024


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """The links of one block: their *number*, and the CIDs to follow, as spelt, in one string.

    *distinct* is how many those are; each stands once, unless repeats were asked for, in the order
    of a depth-first walk."""

    number: int = 0
    distinct: int = 0
    packed: bytes = b""

    def is_sparse(self, codec: int, size: int) -> bool:
        """Whether reading the block again, of *size* bytes, would cost much more than what it
        leads to: links that lead nowhere, or values that are no links."""
        if self.number - self.distinct >= _SPARSE:
            return True
        return codec != DAG_PB and size >= _LARGE and 2 * len(self.packed) < size

    def __iter__(self) -> Iterator[bytes]:
        """The binary CIDs, canonical, one after the other."""
        return map(canonical, self.spelt())

    def spelt(self) -> Iterator[bytes]:
        """The binary CIDs as the block spells them, one after the other."""
        at, packed = 0, self.packed
        while at < len(packed):
            length, at = read_varint(packed, at)
            yield packed[at : at + length]
            at += length


NO_LINKS: Final = NodeLinks()


def one_link(cid: Cid, most: int) -> NodeLinks:
    """A link to *cid* alone, or what is inside of it."""
    found = _LinkCount(most)
    found.take([cid.spelt])
    return found.links()


def read_links(cid: Cid, data: bytes, most: int, *, repeats: bool = False) -> NodeLinks:
    """The links of the block *cid* with the bytes *data*, those inside of CIDs included.

    With *repeats* each CID is there as often as it is linked to. ValueError, with the reason, for
    more than *most*, malformed ones, and any we cannot keep."""
    if cid.codec in LEAVES:
        return NO_LINKS
    found = _LinkCount(most, repeats=repeats)
    found.take(spelt_links(cid, data))
    return found.links()


def canonical(cid: bytes) -> bytes:
    """The binary *cid* in version 1."""
    return _V0_CODEC + cid if _is_v0(cid) else cid


def _is_v0(cid: bytes) -> bool:
    return len(cid) == _V0_LENGTH and cid[:2] == _V0_HEAD


def multihash_in(cid: bytes) -> bytes:
    """The multihash in a canonical binary CID."""
    if len(cid) == USUAL_LENGTH and cid[:4] in _USUAL_HEADS:
        return cid[2:]
    _, at = read_varint(cid, 1)
    return cid[at:]


def codec_in(cid: bytes) -> int:
    """The codec in a canonical binary CID."""
    return cid[1] if cid[1] < _ONE_BYTE else read_varint(cid, 1)[0]


class _LinkCount:
    """The links that were read so far, of a block and of those inside of its CIDs."""

    def __init__(self, most: int, *, repeats: bool = False) -> None:
        self._most = most
        self._repeats = repeats
        self._number = 0
        self._seen: set[bytes] = set()
        self._targets: list[bytes] = []

    def links(self) -> NodeLinks:
        packed = b"".join(
            [bytes((len(each),)) + each if len(each) < _ONE_BYTE else framed(each)
             for each in self._targets]
        )  # fmt: skip
        return NodeLinks(self._number, len(self._targets), packed)

    def take(self, spelt: Iterator[bytes] | list[bytes]) -> None:
        """Add links as they are spelt in a block: binary CIDs of either version."""
        seen, targets = self._seen, self._targets
        for each in spelt:
            self._number += 1
            if self._number > self._most:
                raise ValueError(f"it has more than {self._most} links")
            if each[:3] == _RAW_INSIDE and len(each) > 3 and each[3] == len(each) - 4 < _ONE_BYTE:
                continue
            if each in seen and not self._repeats:
                continue
            seen.add(each)
            if (len(each) == USUAL_LENGTH and each[:4] in _USUAL_HEADS) or _is_v0(each):
                targets.append(each)
            else:
                self._take_unusual(Cid.from_bytes(each))

    def _take_unusual(self, cid: Cid) -> None:
        reason = refusal(cid)
        if reason is not None:
            raise ValueError(f"{reason}, and {cid} is one")
        if cid.hash_code != IDENTITY:
            self._targets.append(bytes(cid))
        elif cid.codec not in LEAVES:
            # As deep as 128 bytes can hold CIDs inside of CIDs: 17 of them.
            self.take(spelt_links(cid, cid.digest))
