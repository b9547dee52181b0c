"""UnixFS, as far as the scope `entity` needs it: which links make up the thing itself.

Knows the types of a node (ipfs/specs `unixfs.md`): a file is all its chunks, a directory is its
list of names, which a large one has spread over shards, and not the files in it. Does no I/O."""

from collections.abc import Iterator
from typing import Final

from content_gateway.codecs.multiformats import IDENTITY, read_varint
from content_gateway.ipld.links import node_data
from content_gateway.ipld.node_links import NO_LINKS, NodeLinks, one_link, read_links
from content_gateway.ipld.selection import FilePart
from content_gateway.ipld.unixfs_node import parse_node, parts_within
from content_gateway.model.cid import DAG_PB, Cid

_FILE: Final = 2
_SHARDS: Final = 5


def entity_links(cid: Cid, data: bytes, most: int, *, repeats: bool = False) -> NodeLinks:
    """The links of a dag-pb block that belong to the file or directory it is, *repeats* as in
    `read_links`.

    ValueError when the block is malformed or has more than *most*."""
    kind = _kind(node_data(data))
    if kind == _FILE:
        return read_links(cid, data, most, repeats=repeats)
    if kind != _SHARDS:
        return NO_LINKS
    node = parse_node(data)
    # A link to another shard has the digits of its slot as its name, and nothing behind them.
    digits = len(f"{node.fanout - 1:X}")
    shards = [_shard(link, most) for name, link in node.links if len(name) == digits]
    return NodeLinks(
        max(len(node.links), sum(each.number for each in shards)),
        sum(each.distinct for each in shards),
        b"".join(each.packed for each in shards),
    )


def span_links(part: FilePart, data: bytes) -> Iterator[bytes | FilePart]:
    """Of a dag-pb block, which is *part* of a file, the links that the wanted bytes need, in
    order: a CID where all of it is wanted.

    ValueError when the block is malformed, or no part of a file."""
    for cid, size, start, stop in parts_within(parse_node(data), part.start, part.stop):
        below = FilePart(cid.spelt, start, stop)
        if cid.hash_code != IDENTITY:
            yield below if cid.codec == DAG_PB and stop - start < size else cid.spelt
        elif cid.codec == DAG_PB:  # as deep as 128 bytes can hold CIDs inside of CIDs
            yield from span_links(below, cid.digest)


def _shard(link: Cid, most: int) -> NodeLinks:
    """A link to another shard, or what is in it where it stands inside its CID."""
    if link.hash_code == IDENTITY and link.codec == DAG_PB:
        return entity_links(link, link.digest, most)
    return one_link(link, most)


def _kind(data: bytes) -> int | None:
    """The type in a UnixFS node's data, whose first field it is; None if it is none."""
    if data[:1] != b"\x08":
        return None
    return read_varint(data, 1)[0]
