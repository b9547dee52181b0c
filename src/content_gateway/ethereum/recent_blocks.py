"""The newest blocks of a chain as a listener has heard of them, and what one more means.

Knows how blocks hang together and which nodes (EIP-137) changed in which of them, so that a
reorganisation can take that back. Asks nobody: fetching is left to chain_listener.py."""

from collections import OrderedDict
from enum import Enum, auto
from typing import Final

from content_gateway.ethereum.blocks import BlockHeader

# Two epochs of Ethereum: nothing older is reorganised, and no more that were missed are fetched.
MOST_BLOCKS: Final = 64
_MOST_NODES: Final = 5_000  # in a block, that are remembered


class Place(Enum):
    """Where a block stands that was heard of."""

    FIRST = auto()  # nothing is known yet
    KNOWN = auto()  # heard before: the node repeats itself, or is behind
    NEXT = auto()  # upon the last one
    BRANCH = auto()  # upon an older one: what was above that is orphaned
    AHEAD = auto()  # some blocks were missed, and it may be upon another branch
    ASTRAY = auto()  # upon a block that is not known, at a height that is
    FAR = auto()  # too far from the last one


class RecentBlocks:
    """Up to MOST_BLOCKS of them, each upon the one before, as far as that is known."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, BlockHeader] = OrderedDict()  # by hash, ascending
        # By the hash of the block, with its number: also of blocks that are not known, or are
        # orphaned, as a chain may come back to them.
        self._nodes: OrderedDict[bytes, tuple[int, set[bytes]]] = OrderedDict()

    @property
    def last(self) -> BlockHeader | None:
        """The newest one."""
        return next(reversed(self._blocks.values()), None)

    @property
    def first(self) -> BlockHeader | None:
        """The oldest one that is remembered."""
        return next(iter(self._blocks.values()), None)

    def place(self, block: BlockHeader) -> Place:
        """Where *block* stands; nothing changes yet."""
        last = self.last
        if last is None:
            return Place.FIRST
        if block.hash in self._blocks:
            return Place.KNOWN
        parent = self._blocks.get(block.parent)
        if parent is not None and block.number == parent.number + 1:
            return Place.NEXT if parent is last else Place.BRANCH
        if abs(block.number - last.number) > MOST_BLOCKS:
            return Place.FAR
        return Place.AHEAD if block.number > last.number + 1 else Place.ASTRAY

    def add(self, block: BlockHeader) -> None:
        """*block* is the newest one."""
        self._blocks[block.hash] = block
        while len(self._blocks) > MOST_BLOCKS:
            self._blocks.popitem(last=False)

    def cut(self, parent: bytes | None = None) -> set[bytes]:
        """Forget all blocks above *parent*, or all; returns the nodes that changed above it."""
        while self._blocks and next(reversed(self._blocks)) != parent:
            self._blocks.popitem()
        last = self.last
        height = -1 if last is None else last.number
        return set().union(*(nodes for number, nodes in self._nodes.values() if number > height))

    def forget(self) -> None:
        """Forget everything."""
        self._blocks.clear()
        self._nodes.clear()

    def note(self, number: int, block: bytes, node: bytes) -> bool:
        """*node* changed in the block with this number and hash; whether that is new."""
        _, known = self._nodes.setdefault(block, (number, set()))
        is_new = node not in known
        if len(known) < _MOST_NODES:
            known.add(node)
        if len(self._nodes) > 2 * MOST_BLOCKS:
            self._nodes.popitem(last=False)
        return is_new

    def unnote(self, block: bytes, node: bytes) -> None:
        """What changed there was taken back by the node that told of it."""
        if block in self._nodes:
            self._nodes[block][1].discard(node)
