"""The frontier of a DAG: which of its blocks are known to be here, and which are wanted next.

Knows links and limits: a block belongs to the DAG only if one that was accepted before links to
it, so whatever else a gateway sends is not kept. Does no I/O, and belongs to one thread at a
time; the block store looks up what is here, and the retrieval fetches what is not."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from content_gateway.content.cid import DAG_PB, RAW, Cid
from content_gateway.content.multiformats import IDENTITY, SHA2_256
from content_gateway.ipfs.embedded.block import LEAVES, multihash_of, refusal
from content_gateway.ipfs.embedded.car import Section
from content_gateway.ipfs.embedded.dag import links

# Blocks that came before the one that links to them, where a CAR is not in depth-first order.
MAX_STRAY_BYTES: Final = 8 * 1024 * 1024
_USUAL: Final = frozenset((RAW, DAG_PB))
_STRAY_OVERHEAD: Final = 200  # what Python needs to remember a block without bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest DAG that one pin may bring in: blocks, their bytes, and links from the root."""

    blocks: int = 1_000_000
    size: int = 64 * 1024**3
    depth: int = 1_000


class Frontier:
    """The DAG below one root, as far as it is known.

    *blocks* and *size* count what is here. Methods raise ValueError, with the reason in words,
    when the DAG is over a limit, malformed, or of a kind that cannot be kept."""

    def __init__(self, root: Cid, limits: Limits) -> None:
        self.blocks = 0
        self.size = 0
        self._limits = limits
        # All links so far: the codec by which a multihash was first linked to. One that is
        # linked to by another codec as well (a rarity) stands in _others.
        self._seen: dict[bytes, int] = {}
        self._others: set[Cid] = set()
        self._wanted: dict[bytes, list[tuple[Cid, int]]] = {}
        self._unread: deque[bytes] = deque()
        self._strays: dict[bytes, bytes] = {}
        self._stray_bytes = 0
        self._follow([root], 0)

    @property
    def is_complete(self) -> bool:
        """Whether every block of the DAG is here."""
        return not self._wanted

    @property
    def has_unread(self) -> bool:
        """Whether there are links of which nobody has looked up whether their block is here."""
        return bool(self._unread)

    def accept(self, sections: Iterable[Section]) -> list[Section]:
        """Take in blocks that were verified: those that are wanted, and strays they link to.

        A block that nothing links to yet is set aside, within a bound, and does not come back."""
        accepted: list[Section] = []
        ahead = deque(sections)
        while ahead:
            multihash, data = ahead.popleft()
            heads = self._wanted.pop(multihash, None)
            if heads is None:
                if multihash not in self._seen:
                    self._set_aside(multihash, bytes(data))
                continue
            self._count(len(data))
            accepted.append((multihash, data))
            for cid, depth in heads:
                if cid.codec not in LEAVES:
                    new = self._follow(links(cid, bytes(data)), depth + 1)
                    ahead.extendleft(
                        (link, self._take_stray(link)) for link in new if link in self._strays
                    )
        return accepted

    def unread(self, most: int) -> list[bytes]:
        """The next multihashes to look up, *most* at most; they count as read now."""
        found: list[bytes] = []
        while self._unread and len(found) < most:
            multihash = self._unread.popleft()
            if multihash in self._wanted:
                found.append(multihash)
        return found

    def is_leaf(self, multihash: bytes) -> bool:
        """Whether the wanted block has no links, by every codec that it is wanted as."""
        return all(cid.codec in LEAVES for cid, _ in self._wanted[multihash])

    def accept_leaf(self, multihash: bytes, size: int) -> None:
        """Take note that a wanted leaf of *size* bytes is here already."""
        del self._wanted[multihash]
        self._count(size)

    def missing(self, multihashes: Iterable[bytes]) -> dict[bytes, Cid]:
        """Those of the blocks that are still wanted, and the CID to ask for them by."""
        return {each: self._wanted[each][0][0] for each in multihashes if each in self._wanted}

    def _follow(self, targets: Iterable[Cid], depth: int) -> list[bytes]:
        """Add links; the multihashes that are wanted because of them."""
        new: list[bytes] = []
        ready = [(cid, depth) for cid in targets]
        for cid, level in ready:  # grows by what is linked to inside of CIDs
            if level > self._limits.depth:
                raise ValueError(f"it has more than {self._limits.depth} levels")
            if cid.hash_code == IDENTITY:
                self._check_kind(cid)
                ready += [(link, level + 1) for link in links(cid, cid.digest)]
                continue
            multihash = multihash_of(cid)
            first = self._seen.get(multihash)
            if first == cid.codec or (first is not None and cid in self._others):
                continue
            if cid.codec not in _USUAL or cid.hash_code != SHA2_256:
                self._check_kind(cid)
            if first is None:
                self._seen[multihash] = cid.codec
            else:
                self._others.add(cid)
            if len(self._seen) + len(self._others) > self._limits.blocks:
                raise ValueError(f"it has more than {self._limits.blocks} blocks")
            self._wanted.setdefault(multihash, []).append((cid, level))
            self._unread.append(multihash)
            new.append(multihash)
        return new

    def _check_kind(self, cid: Cid) -> None:
        reason = refusal(cid)
        if reason is not None:
            raise ValueError(f"{reason}, and {cid} is one")

    def _count(self, size: int) -> None:
        self.blocks += 1
        self.size += size
        if self.size > self._limits.size:
            raise ValueError(f"it has more than {self._limits.size} bytes")

    def _set_aside(self, multihash: bytes, data: bytes) -> None:
        if multihash not in self._strays:
            self._strays[multihash] = data
            self._stray_bytes += len(data) + _STRAY_OVERHEAD
        while self._stray_bytes > MAX_STRAY_BYTES:
            self._take_stray(next(iter(self._strays)))

    def _take_stray(self, multihash: bytes) -> bytes:
        data = self._strays.pop(multihash)
        self._stray_bytes -= len(data) + _STRAY_OVERHEAD
        return data
