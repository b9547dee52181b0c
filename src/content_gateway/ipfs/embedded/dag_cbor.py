"""The links of a dag-cbor block, found without building its values.

Knows the strict subset of CBOR that DAG-CBOR allows (ipld/specs `dag-cbor.md`): definite
lengths, text keys that differ, no tag but 42. General CBOR readers resolve sets and shared
values, behind which a link could be overlooked or a small block could grow without end."""

from typing import Final

MAX_DEPTH: Final = 1_000
_LINK_TAG: Final = 42
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
