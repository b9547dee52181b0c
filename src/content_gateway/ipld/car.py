"""CAR files, version 1: read piece by piece, as they come from a stream, and written.

Knows the framing (ipld.io `specs/transport/car/carv1`: a DAG-CBOR header, then sections of a CID
and its block, each behind a varint of its length) and bounds it: one section is held at a time.
Whether a block is the one its CID names, and is wanted, is left to whoever reads."""

import struct
from typing import Any, Final

import cbor2

from content_gateway.codecs.multiformats import (
    IDENTITY,
    MAX_VARINT_BYTES,
    SHA2_256,
    framed,
    read_varint,
)
from content_gateway.errors import InvalidCid
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.ipld.dag_cbor import cbor_links
from content_gateway.model.cid import Cid

MEDIA_TYPE: Final = "application/vnd.ipld.car"
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_CID_BYTES: Final = 256
_MAX_SECTION_BYTES: Final = MAX_BLOCK_BYTES + MAX_CID_BYTES
_V0_HEAD: Final = bytes((SHA2_256, 32))
_V2_PRAGMA: Final = bytes.fromhex("0aa16776657273696f6e02")
V2_BYTES: Final = 51  # pragma and header

Section = tuple[bytes, bytes | memoryview]
"""Multihash and bytes of a block, which a reader does not copy. The codec beside the multihash is
nothing that a hash proves, so readers take it from the link that led to the block."""


class CarReader:
    """Reads one CAR; give it the bytes in order by `feed`, and call `finish` at their end."""

    def __init__(self) -> None:
        self._rest = b""
        self._past_header = False
        self._roots: list[Any] = []

    def roots(self) -> list[Cid]:
        """The roots that the header names, once it was fed; ValueError if one is no CID."""
        roots = []
        for link in self._roots:
            if not isinstance(link, cbor2.CBORTag) or not isinstance(link.value, bytes):
                raise ValueError("a root of the CAR is no link")
            try:
                roots.append(Cid.from_bytes(link.value.removeprefix(b"\0")))
            except InvalidCid as wrong:
                raise ValueError("a root of the CAR is no CID that we know") from wrong
        return roots

    def feed(self, *pieces: bytes) -> list[Section]:
        """The sections that are complete with *pieces*, in order; those without a block to verify
        (of identity CIDs) are left out. ValueError when it is not a CAR of version 1."""
        buffer, at = b"".join((self._rest, *pieces)), 0
        if not self._past_header:
            at, self._roots = _past_header(buffer)
            if not at:
                self._rest = buffer
                return []
            self._past_header = True
        sections: list[Section] = []
        view = memoryview(buffer)
        while (head := _length(buffer, at, _MAX_SECTION_BYTES)) is not None:
            length, start = head
            end = start + length
            if end > len(buffer):
                break
            code, hashed, body = _cid(buffer, start, end)
            if end - body > MAX_BLOCK_BYTES:
                raise ValueError(f"a block of the CAR has more than {MAX_BLOCK_BYTES} bytes")
            if code != IDENTITY:
                sections.append((buffer[hashed:body], view[body:end]))
            at = end
        self._rest = buffer[at:]
        return sections

    def finish(self) -> None:
        """ValueError when the bytes ended within the header or a section."""
        if self._rest or not self._past_header:
            raise ValueError("the CAR is cut short")


def header(root: Cid) -> bytes:
    """The beginning of a CAR whose root is *root*."""
    link = cbor2.CBORTag(42, b"\0" + root.spelt)
    return framed(cbor2.dumps({"roots": [link], "version": 1}, canonical=True))


def section(cid: Cid | bytes, data: bytes) -> bytes:
    """The block *data* under *cid*, canonical or in the bytes that spell it, as a CAR holds it."""
    return framed(bytes(cid), data)


def _length(buffer: bytes, at: int, most: int) -> tuple[int, int] | None:
    """The length at *at* and the offset behind it; None when not all of it has come."""
    if at + MAX_VARINT_BYTES > len(buffer) and not any(byte < 0x80 for byte in buffer[at:]):
        return None
    length, start = read_varint(buffer, at)
    if not 0 < length <= most:
        raise ValueError(f"a part of the CAR has {length} bytes")
    return length, start


def _past_header(buffer: bytes) -> tuple[int, list[Any]]:
    """The offset behind the header, and the roots in it; 0 when not all of it has come."""
    head = _length(buffer, 0, MAX_HEADER_BYTES)
    if head is None or sum(head) > len(buffer):
        return 0, []
    length, start = head
    value = buffer[start : start + length]
    cbor_links(value)  # refuses what is not DAG-CBOR, before a general reader sees it
    try:
        fields = cbor2.loads(value)
    except (cbor2.CBORError, RecursionError) as wrong:
        raise ValueError("the CAR's header cannot be read") from wrong
    if not isinstance(fields, dict) or type(fields.get("version")) is not int:
        raise ValueError("the CAR's header has no version")
    if fields["version"] != 1 or not isinstance(fields.get("roots"), list):
        raise ValueError(f"CARs of version {fields['version']} are not read")
    return start + length, fields["roots"]


def inner(beginning: bytes) -> tuple[int, int] | None:
    """Where the CAR of version 1 is in one of version 2: offset and length; None in other files.

    *beginning*: its first V2_BYTES, or all there are (ipld.io `specs/transport/car/carv2`)."""
    if not beginning.startswith(_V2_PRAGMA):
        return None
    if len(beginning) < V2_BYTES:
        raise ValueError("the CAR is cut short")
    offset, length = struct.unpack_from("<QQ", beginning, len(_V2_PRAGMA) + 16)
    if offset < V2_BYTES or offset + length >= 1 << 63:
        raise ValueError("the header of the CAR of version 2 makes no sense")
    return offset, length


def _cid(buffer: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Hash function of the CID at *at*, and the offsets of its multihash and behind it."""
    hashed = at
    if buffer[at : at + 2] != _V0_HEAD:
        # Most CIDs are version 1, one-byte codec, sha2-256: no need to read number by number.
        if buffer[at + 2 : at + 4] == _V0_HEAD and buffer[at] == 1 and buffer[at + 1] < 0x80:
            return _bounded(SHA2_256, at + 2, at + 36, end)
        version, hashed = read_varint(buffer, at)
        if version != 1:
            raise ValueError("a section of the CAR does not begin with a CID")
        _, hashed = read_varint(buffer, hashed)
    code, behind = read_varint(buffer, hashed)
    length, behind = read_varint(buffer, behind)
    if behind + length - at > MAX_CID_BYTES:
        raise ValueError("a CID of the CAR is too long")
    return _bounded(code, hashed, behind + length, end)


def _bounded(code: int, hashed: int, behind: int, end: int) -> tuple[int, int, int]:
    if behind > end:
        raise ValueError("a section of the CAR is shorter than its CID")
    return code, hashed, behind
