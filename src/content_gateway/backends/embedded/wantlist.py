"""The wantlist of a DAG: which of its blocks are known to be here, and which are wanted next.

Knows links and limits: a block belongs to the DAG only if one that was accepted before links to
it, so whatever else a gateway sends is not kept. Does no I/O, and belongs to one thread at a
time; the block store looks up what is here, and the retrieval fetches what is not."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.errors import Overloaded
from content_gateway.ipld.block import LEAVES
from content_gateway.ipld.car import Section
from content_gateway.ipld.node_links import (
    NodeLinks,
    codec_in,
    multihash_in,
    one_link,
    read_links,
)
from content_gateway.model.cid import DAG_PB, RAW, Cid

# Blocks that came before the one that links to them, where a CAR is not in depth-first order.
MAX_UNSOLICITED_BYTES: Final = 8 * 1024 * 1024
# The links that all pins under way may know of: each takes some 200 bytes.
MAX_KNOWN: Final = 1_200_000
_UNSOLICITED_OVERHEAD: Final = 200  # what Python needs to remember a block without bytes
_HERE: Final = -1
_USUAL_HEADS: Final = tuple(bytes((1, codec)) for codec in (RAW, DAG_PB))
_SHA2_256_HEAD: Final = bytes((SHA2_256, 32))

Check = Callable[[Cid], None]
"""Raises Blocked for a block that is not to be kept or served."""

Memo = tuple[bytes, int, NodeLinks]
"""Multihash and codec of a block, and its links: worth keeping, as they were slow to read."""


@dataclass(frozen=True, slots=True)
class DagLimits:
    """The largest DAG that one pin may bring in: blocks, their bytes, and links from the root.

    As many links as *blocks* are followed: duplicates and identity CIDs are links, too."""

    blocks: int = 1_000_000
    size: int = 64 * 1024**3
    depth: int = 1_000


class WantRoom:
    """How many links all wantlists together may know of, so that they fit into memory."""

    def __init__(self, most: int = MAX_KNOWN) -> None:
        self._left = most

    def take(self, number: int) -> None:
        """Count *number* links more; raises Overloaded when there is no room for them."""
        if number > self._left:
            raise Overloaded(
                "Too many blocks of other pins are being brought in; it is its turn next."
            )
        self._left -= number

    def give(self, number: int) -> None:
        """Forget *number* links."""
        self._left += number


class Wantlist:
    """The DAG below one root, as far as it is known.

    Methods raise ValueError, with the reason in words, when the DAG is over a limit, malformed, or
    of a kind that cannot be kept, and Overloaded when it is too much beside others. *check* is
    asked about each CID before it is followed. Use it by `with`: it gives back its *room* in the
    end."""

    def __init__(
        self,
        root: Cid,
        limits: DagLimits,
        room: WantRoom | None = None,
        check: Check | None = None,
    ) -> None:
        self.limits = limits
        self.check = check
        self._room = room or WantRoom()
        # Each CID that is linked to, in binary: its level while it is wanted, then _HERE.
        self._known: dict[bytes, int] = {}
        # The CIDs of a multihash, other than the usual two: a rarity.
        self._unusual: dict[bytes, list[bytes]] = {}
        self._wanted = 0
        self._links = 0
        self._unread: deque[bytes] = deque()
        self._memos: list[Memo] = []
        self._unsolicited: dict[bytes, bytes] = {}
        self._unsolicited_bytes = 0
        try:
            self._follow(one_link(root, limits.blocks), 0)
        except Exception:
            self.close()
            raise

    def __enter__(self) -> "Wantlist":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Give its room back."""
        self._room.give(len(self._known))
        self._known.clear()

    @property
    def is_complete(self) -> bool:
        """Whether every block of the DAG is here."""
        return not self._wanted

    def first_wanted(self) -> Cid | None:
        """A block of the DAG that is not here; None where it is complete."""
        wanted = (cid for cid, level in self._known.items() if level != _HERE)
        return next(map(Cid.from_bytes, wanted), None)

    @property
    def has_unread(self) -> bool:
        """Whether there are links of which nobody has looked up whether their block is here."""
        return bool(self._unread)

    def accept(self, sections: Iterable[Section]) -> list[Section]:
        """Take in verified blocks: those that are wanted, and unsolicited ones that they link to.

        A block that nothing links to yet is set aside, within a bound, and does not come back."""
        accepted: list[Section] = []
        ahead = deque(sections)
        while ahead:
            multihash, data = ahead.popleft()
            cids = self._cids(multihash)
            wanted = [cid for cid in cids if self._known[cid] != _HERE]
            if not wanted:
                if not cids:
                    self._set_aside(multihash, bytes(data))
                continue
            accepted.append((multihash, data))
            for cid in wanted:
                if codec_in(cid) in LEAVES:
                    self.accept_whole(cid)
                    continue
                links = self._read(cid, multihash, bytes(data))
                new = self.accept_links(cid, links)
                ahead.extendleft(
                    (link, self._take_unsolicited(link))
                    for link in new
                    if link in self._unsolicited
                )
        return accepted

    def accept_whole(self, cid: bytes) -> None:
        """Take note that a wanted block is here, and whatever is below it."""
        if self._known[cid] != _HERE:
            self._known[cid] = _HERE
            self._wanted -= 1

    def accept_links(self, cid: bytes, links: NodeLinks) -> list[bytes]:
        """A wanted node is here, with its *links*; returns the multihashes that are wanted now."""
        level = self._known[cid]
        if level == _HERE:
            return []
        self._links += links.number
        if self._links > self.limits.blocks:
            raise ValueError(f"it has more than {self.limits.blocks} links")
        new = self._follow(links, level + 1)
        self.accept_whole(cid)
        return new

    def unread(self, most: int) -> list[bytes]:
        """The next CIDs to look up, *most* at most; they count as read now."""
        found: list[bytes] = []
        while self._unread and len(found) < most:
            cid = self._unread.popleft()
            if self._known[cid] != _HERE:
                found.append(cid)
        return found

    def is_wanted(self, cid: bytes) -> bool:
        """Whether its block has not come yet."""
        return self._known[cid] != _HERE

    def missing(self, cids: Iterable[bytes]) -> dict[bytes, Cid]:
        """Those of *cids* that are still wanted, by their multihash."""
        return {multihash_in(cid): Cid.from_bytes(cid) for cid in cids if self._known[cid] != _HERE}

    def take_memos(self) -> Sequence[Memo]:
        """What was read and is worth keeping, since the last call."""
        memos, self._memos = self._memos, []
        return memos

    def _read(self, cid: bytes, multihash: bytes, data: bytes) -> NodeLinks:
        links = read_links(Cid.from_bytes(cid), data, self.limits.blocks)
        if links.is_sparse(codec_in(cid), len(data)):
            self._memos.append((multihash, codec_in(cid), links))
        return links

    def _cids(self, multihash: bytes) -> list[bytes]:
        """The CIDs with that multihash that are linked to."""
        known = self._unusual.get(multihash, [])
        if multihash[:2] != _SHA2_256_HEAD:
            return known
        usual = [head + multihash for head in _USUAL_HEADS if head + multihash in self._known]
        return usual + known

    def _follow(self, links: NodeLinks, level: int) -> list[bytes]:
        """Add links; the multihashes that are wanted because of them."""
        if links.distinct and level > self.limits.depth:
            raise ValueError(f"it has more than {self.limits.depth} levels")
        new: list[bytes] = []
        for cid in links:
            if cid in self._known:
                continue
            if self.check is not None:
                self.check(Cid.from_bytes(cid))
            if len(self._known) >= self.limits.blocks:
                raise ValueError(f"it has more than {self.limits.blocks} blocks")
            self._room.take(1)
            self._known[cid] = level
            self._wanted += 1
            self._unread.append(cid)
            multihash = multihash_in(cid)
            if cid[:2] not in _USUAL_HEADS or multihash[:2] != _SHA2_256_HEAD:
                self._unusual.setdefault(multihash, []).append(cid)
            new.append(multihash)
        return new

    def _set_aside(self, multihash: bytes, data: bytes) -> None:
        if multihash not in self._unsolicited:
            self._unsolicited[multihash] = data
            self._unsolicited_bytes += len(data) + _UNSOLICITED_OVERHEAD
        while self._unsolicited_bytes > MAX_UNSOLICITED_BYTES:
            self._take_unsolicited(next(iter(self._unsolicited)))

    def _take_unsolicited(self, multihash: bytes) -> bytes:
        data = self._unsolicited.pop(multihash)
        self._unsolicited_bytes -= len(data) + _UNSOLICITED_OVERHEAD
        return data
