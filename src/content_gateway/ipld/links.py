"""The links of a block: what must be kept with it for a DAG to be whole.

Knows dag-pb (ipld/specs `dag-pb.md`), dag-json (links are `{"/": "cid"}`) and that raw, cbor
and json have no links; dag-cbor has a file of its own. Does no I/O."""

import json
from collections.abc import Iterator
from typing import Any, Final

from content_gateway.codecs.multiformats import MAX_VARINT_BYTES, read_varint
from content_gateway.errors import InvalidCid
from content_gateway.ipld.dag_cbor import cbor_links
from content_gateway.model.cid import CBOR, DAG_CBOR, DAG_JSON, DAG_PB, JSON, RAW, Cid

_PB_LINKS: Final = 0x12  # field 2 of PBNode, length-delimited
_PB_DATA: Final = 0x0A  # field 1 of PBNode
_PB_HASH: Final = 0x0A  # field 1 of PBLink
_PB_NAME: Final = 0x12  # field 2 of PBLink
_PB_SIZE: Final = 0x18  # field 3 of PBLink
_ONE_BYTE: Final = 0x80


def links(cid: Cid, data: bytes) -> list[Cid]:
    """The CIDs that the block *cid* with the bytes *data* links to, in order.

    ValueError for a malformed block, links we cannot keep, or a codec that we do not walk."""
    return [Cid.from_bytes(link) for link in spelt_links(cid, data)]


def spelt_links(cid: Cid, data: bytes) -> Iterator[bytes]:
    """As `links`, but the binary CIDs as they are spelt in the block, one after the other.

    What is malformed is found where it stands: ValueError may come behind good links."""
    if cid.codec in (RAW, CBOR, JSON):
        return
    try:
        if cid.codec == DAG_PB:
            yield from _pb_links(data)
        elif cid.codec == DAG_CBOR:
            yield from cbor_links(data)
        elif cid.codec == DAG_JSON:
            yield from _json_links(json.loads(data, object_pairs_hook=_object))
        else:
            raise ValueError(f"the embedded store cannot walk blocks of the codec 0x{cid.codec:x}")
    except (InvalidCid, RecursionError) as wrong:
        raise ValueError(f"the block {cid} cannot be read: {wrong}") from wrong


def named_links(data: bytes) -> list[tuple[bytes, Cid]]:
    """Name and CID of every link of a dag-pb block; ValueError when it is malformed."""
    found = []
    for tag, value in _pb_fields(data):
        if tag == _PB_LINKS:
            fields = dict(_pb_fields(value))
            if _PB_HASH in fields:
                cid = Cid.from_bytes(fields[_PB_HASH])
                found.append((fields.get(_PB_NAME, b""), cid))
    return found


def node_data(data: bytes) -> bytes:
    """The Data of a dag-pb block, empty if it has none; ValueError when it is malformed."""
    return dict(_pb_fields(data)).get(_PB_DATA, b"")


def _pb_links(data: bytes) -> Iterator[bytes]:
    """The Hash of every PBLink of a PBNode."""
    at, end = 0, len(data)
    while at < end:
        # One in short: a link whose parts all have lengths of one byte, in the usual order.
        if data[at] == _PB_LINKS and at + 3 < end and data[at + 1] < _ONE_BYTE:
            stop = at + 2 + data[at + 1]
            behind = at + 4 + data[at + 3]
            if stop <= end and data[at + 2] == _PB_HASH and _is_rest(data, behind, stop):
                yield data[at + 4 : behind]
                at = stop
                continue
        tag, value, at = _pb_field(data, at)
        if tag == _PB_LINKS:
            hashes = [inner for inner_tag, inner in _pb_fields(value) if inner_tag == _PB_HASH]
            if len(hashes) != 1:
                raise ValueError("a dag-pb link has not one hash")
            yield hashes[0]
        elif tag != _PB_DATA:
            raise ValueError("a dag-pb node has an unknown field")


def _is_rest(data: bytes, at: int, stop: int) -> bool:
    """Whether what stands behind a link's hash is nothing, or its name and its size."""
    if at < stop - 1 and data[at] == _PB_NAME and data[at + 1] < _ONE_BYTE:
        at += 2 + data[at + 1]
    if at >= stop - 1 or data[at] != _PB_SIZE:
        return at == stop
    *ahead, last = data[at + 1 : stop]
    if ahead and (not last or min(ahead) < _ONE_BYTE or len(ahead) >= MAX_VARINT_BYTES):
        return False
    return last < _ONE_BYTE


def _pb_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and bytes of every field; a number counts as no bytes (a link's size, not needed)."""
    at = 0
    while at < len(data):
        tag, value, at = _pb_field(data, at)
        yield tag, value


def _pb_field(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag and bytes of the field at *at*, and the offset behind it."""
    end = len(data)
    # Nearly all numbers here are one byte long.
    tag, at = (data[at], at + 1) if data[at] < _ONE_BYTE else read_varint(data, at)
    if at < end and data[at] < _ONE_BYTE:
        number, at = data[at], at + 1
    else:
        number, at = read_varint(data, at)
    wire_type = tag & 7
    if wire_type == 0:
        return tag, b"", at
    if wire_type != 2 or at + number > end:
        raise ValueError("a dag-pb field is malformed")
    return tag, data[at : at + number], at + number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a reader keeps one of a doubled key, and a link could be under the other."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a dag-json object has a key twice")
    return value


def _json_links(tree: Any) -> Iterator[bytes]:
    """The binary CIDs in *tree*, in order."""
    ahead = [tree]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            if value.keys() == {"/"} and isinstance(value["/"], str):
                yield bytes(Cid.parse(value["/"]))
            else:
                ahead.extend(reversed(value.values()))
        elif isinstance(value, list):
            ahead.extend(reversed(value))
