"""UnixFS, as far as the scope `entity` needs it: which links make up the thing itself.

Knows the types of a node (ipfs/specs `unixfs.md`): a file is all its chunks, a directory is its
list of names, which a large one has spread over shards, and not the files in it. Does no I/O."""

from typing import Final

from content_gateway.content.cid import Cid
from content_gateway.content.multiformats import read_varint
from content_gateway.ipfs.embedded.dag import links, named_links, node_data

_DIRECTORY: Final = 1
_FILE: Final = 2
_SHARDS: Final = 5
_SHARD_NAME: Final = 2  # a link of a shard to another has a name of two hexadecimal digits


def entity_links(cid: Cid, data: bytes) -> list[Cid]:
    """The links of a dag-pb block that belong to the file or directory it is.

    ValueError when the block is malformed."""
    kind = _kind(node_data(data))
    if kind == _FILE:
        return links(cid, data)
    if kind == _SHARDS:
        return [link for name, link in named_links(data) if len(name) == _SHARD_NAME]
    return []


def _kind(data: bytes) -> int | None:
    """The type in a UnixFS node's data, whose first field it is; None if it is none."""
    if data[:1] != b"\x08":
        return None
    return read_varint(data, 1)[0]
