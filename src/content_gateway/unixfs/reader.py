"""UnixFS: what is at a path below a CID, and the bytes of a file from one to another.

Theory of operation. Every block is verified by its CID before it is read, so that nothing here need
be believed but the root; what may still be wrong is what a maker of content wrote on purpose. So
each node is held to what the one above it said: a part of a file is as long as its parent says, and
as long as its own parts are. Then a file has the length that was announced, or breaks off; it never
has other bytes.

A file is read from the left. What is ahead stands in a queue of parts, each with the bytes of it
that are wanted: a node that comes to the front is replaced by its parts, a leaf is given out. The
fetches of the first few begin at once, so that the next block is there when the reader has taken
this one; they are as many as fit into a mebibyte, which is what a slow reader costs.

The links of a node of a file are asked of the denylist as soon as the node was read: of most files
that is all of them, before the first byte. Blocks themselves are left to block_reader.py."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from content_gateway.errors import ContentMalformed, PathNotFound
from content_gateway.ipld.hamt import HashedName
from content_gateway.ipld.unixfs_node import NodeKind, UnixFsNode, parse_node, parts_within
from content_gateway.model.cid import CODECS, DAG_PB, RAW, Cid

MAX_SEGMENTS: Final = 128
MAX_LEVELS: Final = 32  # of a file's nodes: a balanced tree of 174 links has 10^14 bytes in six
_MAX_AHEAD: Final = 200_000  # parts of a file that are known of and not read yet
_AHEAD_BYTES: Final = 1024 * 1024
_AHEAD_PARTS: Final = 8
# Nodes above this are read in a thread: 2 MiB of links take tenths of a second.
_IN_PLACE_BYTES: Final = 16 * 1024
_T = TypeVar("_T")


class Blocks(Protocol):
    """Where blocks come from."""

    def check(self) -> Callable[[Cid], None]:
        """What raises Blocked for a block that is not served; in any thread."""

    async def block(self, cid: Cid, requestor: str) -> bytes:
        """The verified block; raises Blocked, UpstreamError, Overloaded, StorageUnavailable."""


@dataclass(frozen=True, slots=True)
class UnixFsEntry:
    """What is at a path: *node* is its UnixFS node, None for a file that is one raw block.

    *size* is a file's length in bytes; *roots* are the CIDs of the path so far, this one last, and
    *segments* the names between them."""

    cid: Cid
    node: UnixFsNode | None
    size: int
    roots: tuple[Cid, ...]
    segments: tuple[str, ...] = ()

    @property
    def is_directory(self) -> bool:
        """Whether there may be something below it."""
        return self.node is not None and self.node.kind in (NodeKind.DIRECTORY, NodeKind.SHARD)

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link, whose bytes are its target."""
        return self.node is not None and self.node.kind is NodeKind.SYMLINK


class UnixFs:
    """The files and directories in *blocks*; *check_path* raises Blocked for segments below a root.

    Methods raise PathNotFound, ContentMalformed, and what blocks raise; what they cost is charged
    to *requestor*."""

    def __init__(
        self,
        blocks: Blocks,
        *,
        check_path: Callable[[Cid, Sequence[str]], None] = lambda root, segments: None,
    ) -> None:
        self._blocks = blocks
        self._check_path = check_path

    async def find(self, root: Cid, segments: Sequence[str], requestor: str) -> UnixFsEntry:
        """What is at the path *segments* below *root*; symbolic links are not followed."""
        if len(segments) > MAX_SEGMENTS:
            raise PathNotFound(f"The path has more than {MAX_SEGMENTS} segments.")
        self._check_path(root, segments)
        entry = await self.open(root, (), requestor)
        for segment in segments:
            below = await self._below(entry, segment, requestor)
            if below is None:
                raise PathNotFound(f"There is no {segment!r} in {entry.cid}.")
            entry = below
        return entry

    async def child(self, entry: UnixFsEntry, name: str, requestor: str) -> UnixFsEntry | None:
        """What *entry* has under *name*; None where it has nothing, or is no directory."""
        self._check_path(entry.roots[0], (*entry.segments, name))
        return await self._below(entry, name, requestor)

    async def _below(self, entry: UnixFsEntry, name: str, requestor: str) -> UnixFsEntry | None:
        """As `child`, of a path that was checked."""
        cid = await self.link(entry, name, requestor)
        if cid is None:
            return None
        below = await self.open(cid, entry.roots, requestor)
        return replace(below, segments=(*entry.segments, name))

    async def link(self, entry: UnixFsEntry, name: str, requestor: str) -> Cid | None:
        """The CID of a `child`, whose path is not checked and whose block is not read."""
        if not entry.is_directory or entry.node is None:
            return None
        try:
            encoded = name.encode()
        except UnicodeEncodeError:  # a lone surrogate: no such name can be written
            return None
        if entry.node.kind is NodeKind.DIRECTORY:
            return next((cid for linked, cid in entry.node.links if linked == encoded), None)
        return await self._in_shards(entry.cid, entry.node, encoded, requestor)

    async def read(
        self, entry: UnixFsEntry, start: int, stop: int, requestor: str
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of the file *entry* from *start* to before *stop*, piece by piece."""
        ahead = deque([_Part(entry.cid, entry.size, start, stop, 0)] if start < stop else [])
        try:
            while ahead:
                self._begin(ahead, requestor)
                part = ahead.popleft()
                task, part.task = part.task, None
                data = await _ending(task)
                pieces, parts = await self._opened(part, data)
                if len(ahead) + len(parts) > _MAX_AHEAD:
                    raise ContentMalformed(f"The file {entry.cid} has too many parts.")
                ahead.extendleft(reversed(parts))
                for piece in pieces:
                    yield piece
        finally:
            tasks = [part.task for part in ahead if part.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def open(self, cid: Cid, roots: tuple[Cid, ...], requestor: str) -> UnixFsEntry:
        """What *cid* is, at a path that led over *roots*."""
        if cid.codec not in (RAW, DAG_PB):
            raise PathNotFound(
                f"{cid} is neither a file nor a directory; it is {CODECS[cid.codec]}."
            )
        data = await self._blocks.block(cid, requestor)
        if cid.codec == RAW:
            return UnixFsEntry(cid, None, len(data), (*roots, cid))
        node = await self._node(cid, data)
        return UnixFsEntry(cid, node, node.size, (*roots, cid))

    async def _node(self, cid: Cid, data: bytes) -> UnixFsNode:
        """The node in a block, whose parts, if it is a file, were asked of the denylist."""
        check = self._blocks.check()

        def read() -> UnixFsNode:
            with _reading(cid):
                node = parse_node(data)
            if node.kind is NodeKind.FILE:
                for _, part in node.links:
                    check(part)
            return node

        return await in_a_thread(read, len(data))

    async def _in_shards(
        self, cid: Cid, node: UnixFsNode, name: bytes, requestor: str
    ) -> Cid | None:
        """The CID that a sharded directory has under *name*."""
        hashed, level = HashedName(name, node.fanout), 0
        while True:
            with _reading(cid):
                shard, whole = hashed.at(level)
            links = {linked: below for linked, below in node.links if linked in (shard, whole)}
            if whole in links and whole != shard:
                return links[whole]
            if shard not in links:
                return None
            cid, level = links[shard], level + 1
            with _reading(cid):
                if cid.codec != DAG_PB:
                    raise ValueError("a shard is not dag-pb")
            fanout = node.fanout
            node = await self._node(cid, await self._blocks.block(cid, requestor))
            with _reading(cid):
                if node.kind is not NodeKind.SHARD or node.fanout != fanout:
                    raise ValueError("it is no shard as the one above it is")

    def _begin(self, ahead: "deque[_Part]", requestor: str) -> None:
        """Begin the fetches of the first parts."""
        size = 0
        for number, part in enumerate(ahead):
            if number == _AHEAD_PARTS or (number and size > _AHEAD_BYTES):
                break
            size += part.size
            if part.task is None:
                fetch = self._blocks.block(part.cid, requestor)
                part.task = asyncio.create_task(fetch, name=f"part {part.cid}")

    async def _opened(self, part: "_Part", data: bytes) -> tuple[list[bytes], list["_Part"]]:
        """What *part*, whose block is *data*, has of the wanted bytes, and in which parts the
        others are."""
        start, stop = part.start, part.stop
        if part.cid.codec == RAW:
            with _reading(part.cid):
                if len(data) != part.size:
                    raise ValueError(f"it has {len(data)} bytes, and {part.size} were announced")
            return [data[start:stop]], []
        with _reading(part.cid):
            if part.cid.codec != DAG_PB:
                raise ValueError(f"a part of a file cannot be {CODECS[part.cid.codec]}")
            if part.level >= MAX_LEVELS:
                raise ValueError(f"the file has more than {MAX_LEVELS} levels")
        node = await self._node(part.cid, data)
        with _reading(part.cid):
            is_part = node.kind in (NodeKind.FILE, NodeKind.RAW) or (
                not part.level and not node.links
            )
            if not is_part:
                raise ValueError("it is no part of a file")
            if node.size != part.size:
                raise ValueError(f"it has {node.size} bytes, and {part.size} were announced")
        pieces = [node.data[start:stop]] if start < len(node.data) else []
        parts = [_Part(*below, part.level + 1) for below in parts_within(node, start, stop)]
        return pieces, parts


@dataclass(slots=True)
class _Part:
    """A part of a file of *size* bytes, of which those from *start* to before *stop* are wanted.

    It is *level* links below the whole; *task* fetches its block, once that has begun."""

    cid: Cid
    size: int
    start: int
    stop: int
    level: int
    task: "asyncio.Task[bytes] | None" = None


@contextmanager
def _reading(cid: Cid) -> Iterator[None]:
    """What is wrong with the block *cid*, as ContentMalformed."""
    try:
        yield
    except ValueError as wrong:
        raise ContentMalformed(f"The block {cid} cannot be read: {wrong}.") from wrong


async def in_a_thread(read: Callable[[], _T], size: int) -> _T:
    """What *read* returns; beside the event loop where *size* bytes make it slow."""
    return await asyncio.to_thread(read) if size > _IN_PLACE_BYTES else read()


async def _ending(task: "asyncio.Task[bytes] | None") -> bytes:
    """The result of *task*, which ends with whoever waits for it."""
    assert task is not None, "the first part has begun"  # noqa: S101
    try:
        return await task
    finally:
        task.cancel()
