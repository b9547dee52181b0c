"""Paths inside of a block of data: to which link the names on the way lead.

Knows the two codecs whose blocks are maps and lists, dag-cbor and dag-json (ipld/specs
`dag-cbor.md`, `dag-json.md`): a name is a key of a map, or an index of a list. Does no I/O; paths
of files and directories are left to unixfs/."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import cbor2

from content_gateway.errors import InvalidCid
from content_gateway.ipld.dag_cbor import cbor_links
from content_gateway.ipld.links import spelt_links
from content_gateway.model.cid import DAG_CBOR, DAG_JSON, Cid

DATA: Final = frozenset((DAG_CBOR, DAG_JSON))
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def link_on_path(cid: Cid, data: bytes, segments: Sequence[str]) -> tuple[Cid | None, int]:
    """The first link on the path *segments* in the block *cid*, and how many of them led to it;
    None where the path ends within the block.

    LookupError, with the segment, where there is nothing; ValueError for a block that is malformed,
    or of another codec."""
    value = _value(cid, data)
    for used, segment in enumerate(segments):
        link = _link(value)
        if link is not None:
            return link, used
        value = _below(value, segment)
    return _link(value), len(segments)


def _value(cid: Cid, data: bytes) -> Any:
    """The value in a block; ValueError."""
    try:
        if cid.codec == DAG_CBOR:
            cbor_links(data)  # refuses what is not DAG-CBOR, before a general reader sees it
            return cbor2.loads(data)
        if cid.codec == DAG_JSON:
            list(spelt_links(cid, data))
            return json.loads(data)
    except (cbor2.CBORError, RecursionError) as wrong:
        raise ValueError("it cannot be read") from wrong
    raise ValueError("its codec is not one of data")


def _below(value: Any, segment: str) -> Any:
    """What a map or list has under *segment*; LookupError where nothing."""
    if isinstance(value, dict) and segment in value:
        return value[segment]
    if isinstance(value, list) and _INDEX.fullmatch(segment) and int(segment) < len(value):
        return value[int(segment)]
    raise LookupError(segment)


def _link(value: Any) -> Cid | None:
    """The CID that *value* is a link to; None where it is none. ValueError."""
    try:
        if isinstance(value, cbor2.CBORTag):
            return Cid.from_bytes(value.value[1:])  # behind the identity multibase
        if isinstance(value, dict) and value.keys() == {"/"} and isinstance(value["/"], str):
            return Cid.parse(value["/"])
    except InvalidCid as wrong:
        raise ValueError("one of its links is no CID") from wrong
    return None
