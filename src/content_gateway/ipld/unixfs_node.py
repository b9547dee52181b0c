"""One node of UnixFS: what a dag-pb block is as a file, a directory, a shard of one or a link.

Knows the protobuf of UnixFS (ipfs/specs `unixfs.md`) and which nodes contradict themselves: a file
must say how long each of its parts is, and as a whole be as long as they are. Does no I/O; which
block a path needs is left to unixfs/."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from content_gateway.codecs.multiformats import read_varint
from content_gateway.ipld.links import named_links, node_data
from content_gateway.model.cid import Cid

# A block of 2 MiB has room for 46,000 links to usual CIDs; more are links into CIDs themselves.
MAX_LINKS: Final = 50_000
MAX_FANOUT: Final = 1024  # as Kubo has it (boxo, ipld/unixfs/hamt)
_LEAST_FANOUT: Final = 8
_MURMUR3: Final = 0x22
_VARINT, _BYTES = 0, 2  # wire types


class NodeKind(IntEnum):
    """What a node is."""

    RAW = 0  # a part of a file, from before there were raw blocks
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    SHARD = 5


@dataclass(frozen=True, slots=True)
class UnixFsNode:
    """A node. *links* are names and CIDs, the names of a file's parts meaning nothing.

    Of a file *size* is its length in bytes: first its own *data*, then its parts, each as long as
    *part_sizes* says. Of a symbolic link *data* is the target. *fanout* is that of a shard."""

    kind: NodeKind
    links: Sequence[tuple[bytes, Cid]]
    data: bytes = b""
    size: int = 0
    part_sizes: Sequence[int] = ()
    fanout: int = 0


def parse_node(block: bytes) -> UnixFsNode:
    """The node in the dag-pb *block*; ValueError says what is wrong with it."""
    numbers, sizes, data = _fields(node_data(block))
    links = named_links(block)
    if len(links) > MAX_LINKS:
        raise ValueError(f"it has more than {MAX_LINKS} links")
    if 1 not in numbers or numbers[1] not in set(NodeKind):
        raise ValueError("it has no type that UnixFS knows")
    kind = NodeKind(numbers[1])
    if kind in (NodeKind.FILE, NodeKind.RAW):
        return _file(kind, links, data, sizes, numbers.get(3))
    if kind is NodeKind.SHARD:
        return UnixFsNode(kind, links, fanout=_fanout(numbers))
    if kind is NodeKind.METADATA:
        raise ValueError("metadata is not content")
    return UnixFsNode(kind, links, data, len(data))


def parts_within(node: UnixFsNode, start: int, stop: int) -> Iterator[tuple[Cid, int, int, int]]:
    """The parts of the file *node* that have bytes from *start* to before *stop*, in order: CID,
    size, and from where to before where, counted from the part's own first byte."""
    at = len(node.data)
    for (_, cid), size in zip(node.links, node.part_sizes, strict=True):
        if at >= stop:
            return
        if size and at + size > start:
            yield cid, size, max(0, start - at), min(size, stop - at)
        at += size


def _file(
    kind: NodeKind,
    links: Sequence[tuple[bytes, Cid]],
    data: bytes,
    sizes: Sequence[int],
    whole: int | None,
) -> UnixFsNode:
    if len(sizes) != len(links):
        raise ValueError(f"it has {len(links)} parts, and the sizes of {len(sizes)}")
    size = len(data) + sum(sizes)
    if whole is not None and whole != size:
        raise ValueError(f"it says that it has {whole} bytes, and its parts have {size}")
    return UnixFsNode(kind, links, data, size, sizes)


def _fanout(numbers: dict[int, int]) -> int:
    fanout = numbers.get(6, 0)
    if numbers.get(5) != _MURMUR3:
        raise ValueError("its names are hashed with a function other than murmur3-x64-64")
    if not _LEAST_FANOUT <= fanout <= MAX_FANOUT or fanout & (fanout - 1):
        raise ValueError(f"{fanout} is no fanout of a shard")
    return fanout


def _fields(message: bytes) -> tuple[dict[int, int], list[int], bytes]:
    """The numbers of UnixFS's Data by field (the last of each counts, as protobuf has it), the
    sizes of its parts, and the bytes in it."""
    numbers: dict[int, int] = {}
    sizes: list[int] = []
    data = b""
    at, end = 0, len(message)
    while at < end:
        tag, at = read_varint(message, at)
        field, wire_type = tag >> 3, tag & 7
        number, at = read_varint(message, at)
        if wire_type == _VARINT:
            if field == 4:
                sizes.append(number)
            else:
                numbers[field] = number
            continue
        if wire_type != _BYTES or at + number > end:
            raise ValueError("its UnixFS data is malformed")
        value = message[at : at + number]
        at += number
        if field == 2:
            data = value
        elif field == 4:  # packed, as newer writers of protobuf have it
            sizes += _packed(value)
    return numbers, sizes, data


def _packed(value: bytes) -> list[int]:
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return found
