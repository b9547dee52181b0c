"""Sharded directories: in which slot of which shard a name is.

Knows the HAMT of UnixFS (ipfs/specs `unixfs.md`, "HAMTDirectory"): a name is hashed with
murmur3-x64-64, each level takes the next bits of the hash, and the names of links begin with their
slot in hexadecimal digits. Does no I/O."""

from typing import Final

_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class HashedName:
    """A *name* that is looked for in shards with that *fanout*."""

    def __init__(self, name: bytes, fanout: int) -> None:
        self._name = name
        self._bits = fanout.bit_length() - 1
        self._digits = len(f"{fanout - 1:X}")
        self._hash = murmur3(name)

    def at(self, level: int) -> tuple[bytes, bytes]:
        """The names of links in the shard that is *level* steps below the first: of the one to the
        next shard, and of the one to what the name is of. ValueError where no bits are left."""
        used = self._bits * (level + 1)
        if used > _BITS:
            raise ValueError("its shards are deeper than the hash of a name is long")
        slot = self._hash >> (_BITS - used) & ((1 << self._bits) - 1)
        prefix = f"{slot:0{self._digits}X}".encode()
        return prefix, prefix + self._name


def murmur3(data: bytes) -> int:
    """The first 64 bits of MurmurHash3 x64 128, with the seed 0."""
    first = second = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        first ^= _mixed(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    second ^= _mixed(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    first ^= _mixed(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    first ^= len(data)
    second ^= len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _finished(first) + _finished(second) & _MASK


def _mixed(value: int, before: int, bits: int, behind: int) -> int:
    return _rotated(value * before & _MASK, bits) * behind & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (_BITS - bits)) & _MASK


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
