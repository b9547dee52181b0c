"""The way of a path: where it ends, and which blocks prove that it leads there.

Knows that paths lead through directories and shards (reader.py), and through maps and lists of data
(ipld/data_path.py), and that a client needs every block which was read on the way. Whether a block
is here, and may be served, is left to whoever gives them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.errors import ContentMalformed, PathNotFound
from content_gateway.ipld.data_path import DATA, link_on_path
from content_gateway.model.cid import Cid
from content_gateway.unixfs.reader import MAX_SEGMENTS, Blocks, UnixFs, in_a_thread


@dataclass(frozen=True, slots=True)
class WayEnd:
    """Where a path ends: at *cid*. *blocks* were read on the way, in order, without that one;
    *roots* are the CIDs of its segments, that one last."""

    cid: Cid
    blocks: Sequence[Cid]
    roots: Sequence[Cid]


class ContentWays:
    """The ways of paths through *blocks*.

    Methods raise PathNotFound, ContentMalformed, and what blocks raise; what they cost is charged
    to *requestor*."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    async def find(self, root: Cid, segments: Sequence[str], requestor: str) -> WayEnd:
        """Where the path *segments* below *root* ends; one that ends within a block ends at it.

        The block at the end itself is not read, unless it was needed to know that."""
        if len(segments) > MAX_SEGMENTS:
            raise PathNotFound(f"The path has more than {MAX_SEGMENTS} segments.")
        blocks = _ReadBlocks(self._blocks)
        files = UnixFs(blocks)
        cid, ahead = root, list(segments)
        roots: tuple[Cid, ...] = (root,)
        while ahead:
            if cid.codec in DATA:
                below, used = await self._in_data(blocks, cid, ahead, requestor)
            else:
                entry = await files.open(cid, roots[:-1], requestor)
                below, used = await files.link(entry, ahead[0], requestor), 1
                if below is None:
                    raise PathNotFound(f"There is no {ahead[0]!r} in {cid}.")
            if below is None:
                break
            cid, ahead = below, ahead[used:]
            roots = (*roots, cid)
        return WayEnd(cid, [each for each in blocks.read if each != cid], roots)

    async def size(self, cid: Cid, requestor: str) -> int | None:
        """How many bytes the file *cid* has; None where it is something else."""
        try:
            entry = await UnixFs(self._blocks).open(cid, (), requestor)
        except (PathNotFound, ContentMalformed):
            return None
        return None if entry.is_directory or entry.is_symlink else entry.size

    async def _in_data(
        self, blocks: "_ReadBlocks", cid: Cid, segments: Sequence[str], requestor: str
    ) -> tuple[Cid | None, int]:
        """As `link_on_path`."""
        data = await blocks.block(cid, requestor)
        try:
            return await in_a_thread(lambda: link_on_path(cid, data, segments), len(data))
        except LookupError as missing:
            raise PathNotFound(f"There is no {missing.args[0]!r} in {cid}.") from missing
        except ValueError as wrong:
            raise ContentMalformed(f"The block {cid} cannot be read: {wrong}.") from wrong


@dataclass(frozen=True, slots=True)
class _ReadBlocks:
    """The blocks of *given*; *read* are those that were asked for, but those inside of CIDs."""

    given: Blocks
    read: list[Cid] = field(default_factory=list)

    def check(self) -> Callable[[Cid], None]:
        """As that of *given*."""
        return self.given.check()

    async def block(self, cid: Cid, requestor: str) -> bytes:
        """As that of *given*."""
        data = await self.given.block(cid, requestor)
        if cid.hash_code != IDENTITY:
            self.read.append(cid)
        return data
