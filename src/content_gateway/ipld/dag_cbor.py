"""The links of a dag-cbor block, found without building its values.

Knows the strict subset of CBOR that DAG-CBOR allows (ipld/specs `dag-cbor.md`): definite
lengths, text keys that differ, no tag but 42. General CBOR readers resolve sets and shared
values, behind which a link could be overlooked or a small block could grow without end."""

import re
from typing import Final

MAX_DEPTH: Final = 1_000
_LINK_TAG: Final = 42
_LINK_HEAD: Final = b"\xd8\x2a"  # tag 42, in the shortest form
# Numbers, short strings, empty lists and maps, false, true, null and floats: no links.
_VALUE: Final = (
    rb"(?:[\x00-\x17\x20-\x37\x40\x60\x80\xa0\xf4-\xf6]|[\x18\x38\x41\x61].|"
    rb"[\x19\x39\x42\x62\xf9]..|[\x43\x63]...|[\x1a\x3a\x44\x64\xfa].{4}|"
    rb"[\x45\x65].{5}|[\x46\x66].{6}|[\x47\x67].{7}|[\x1b\x3b\x48\x68\xfb].{8})"
)
_SMALL_VALUE: Final = re.compile(_VALUE, re.DOTALL)
_SMALL_VALUES: Final = re.compile(_VALUE + rb"{1,4096}", re.DOTALL)
_BYTES, _TEXT, _LIST, _MAP, _TAG, _SIMPLE = 2, 3, 4, 5, 6, 7
_FALSE_TRUE_NULL: Final = (20, 21, 22)
_FLOATS: Final = (25, 26, 27)


class _Level:
    """A list or map whose items are being read; *keys* is None for a list."""

    def __init__(self, items: int, keys: set[bytes] | None) -> None:
        self.items = items
        self.keys = keys


def cbor_links(data: bytes) -> list[bytes]:
    """The binary CIDs that *data* links to, in order; ValueError if it is not DAG-CBOR."""
    found: list[bytes] = []
    levels, at = [_Level(1, None)], 0
    while levels:
        level = levels[-1]
        if not level.items:
            levels.pop()
            continue
        if level.keys is None:
            # In short, as a block may hold two million of them: small values in a list.
            run = _SMALL_VALUES.match(data, at)
            if run:
                values = _SMALL_VALUE.findall(data, at, run.end())[: level.items]
                level.items -= len(values)
                at += sum(map(len, values))
                continue
        if data[at : at + 2] == _LINK_HEAD and (level.keys is None or level.items % 2):
            link, at = _short_link(data, at) or _link(data, at + 2, _LINK_TAG)
            found.append(link)
            level.items -= 1
            continue
        major, info, value, at = _head(data, at)
        if level.keys is not None and level.items % 2 == 0:
            at = _key(data, at, value if major == _TEXT else None, level.keys)
        elif major in (_BYTES, _TEXT):
            _, at = _read(data, at, value)
        elif major in (_LIST, _MAP):
            is_map = major == _MAP
            levels.append(_Level(value * 2 if is_map else value, set() if is_map else None))
            if len(levels) > MAX_DEPTH:
                raise ValueError("a dag-cbor block is nested too deeply")
        elif major == _TAG:
            link, at = _link(data, at, value)
            found.append(link)
        elif major == _SIMPLE and info not in _FALSE_TRUE_NULL + _FLOATS:
            raise ValueError("a dag-cbor block has a value of an unknown kind")
        level.items -= 1
    if at != len(data):
        raise ValueError("a dag-cbor block has bytes behind its end")
    return found


def _head(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Major type, additional information, argument, and the offset behind them."""
    if at >= len(data):
        raise ValueError("a dag-cbor block is cut short")
    major, info = data[at] >> 5, data[at] & 31
    if info < 24:
        return major, info, info, at + 1
    if info > 27:
        raise ValueError("a dag-cbor length is not definite")
    argument, end = _read(data, at + 1, 1 << (info - 24))
    return major, info, int.from_bytes(argument, "big"), end


def _read(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(data):
        raise ValueError("a dag-cbor block is cut short")
    return data[at : at + length], at + length


def _key(data: bytes, at: int, length: int | None, keys: set[bytes]) -> int:
    """The offset behind a key of *length* bytes (None: it is not text), added to *keys*."""
    if length is None:
        raise ValueError("a dag-cbor map has a key that is not text")
    key, at = _read(data, at, length)
    if key in keys:
        raise ValueError("a dag-cbor map has a key twice")
    keys.add(key)
    return at


def _short_link(data: bytes, at: int) -> tuple[bytes, int] | None:
    """As `_link` of the tag at *at*, for a CID of less than 256 bytes; None where it is not one."""
    head = data[at + 2 : at + 5]
    if len(head) < 3:
        return None
    if 0x41 <= head[0] <= 0x57:
        length, start = head[0] - 0x40, at + 3
    elif head[0] == 0x58:
        length, start = head[1], at + 4
    else:
        return None
    if not length or start + length > len(data) or data[start]:
        return None
    return data[start + 1 : start + length], start + length


def _link(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """The CID behind a tag's head, and the offset behind it."""
    major, _, length, at = _head(data, at)
    if tag != _LINK_TAG or major != _BYTES:
        raise ValueError("a dag-cbor tag is not a link")
    value, at = _read(data, at, length)
    # Binary CIDs in CBOR stand behind a zero byte (the identity multibase).
    if value[:1] != b"\0":
        raise ValueError("a dag-cbor link has no multibase prefix")
    return value[1:], at
