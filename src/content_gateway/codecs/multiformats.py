"""Multiformats: varint, multibase and the multihash table, bytes to bytes.

Strict both ways: one byte string has one spelling per base, so non-minimal varints, stray
padding and left-over bits are refused with ValueError. Knows the public tables (multiformats
specs: unsigned-varint, multibase, multicodec) and nothing of what they are used for."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b, blake2s, new, sha1, sha256, sha512, shake_256

import libipld

# -- unsigned varint ------------------------------------------------------------------------

MAX_VARINT_BYTES = 9


def read_varint(data: bytes, at: int = 0) -> tuple[int, int]:
    """The varint at *at* and the offset behind it; ValueError if it is cut or not minimal."""
    value = shift = 0
    for offset in range(at, min(at + MAX_VARINT_BYTES, len(data))):
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and offset > at:
                raise ValueError("a varint is not in its shortest form")
            return value, offset + 1
        shift += 7
    raise ValueError("a varint is cut short or longer than 9 bytes")


def split_multihash(multihash: bytes) -> tuple[int, bytes]:
    """The code of the hash function and the digest; ValueError if there are no two varints."""
    code, at = read_varint(multihash)
    _, at = read_varint(multihash, at)
    return code, multihash[at:]


def framed(*parts: bytes) -> bytes:
    """*parts* behind their length as a varint, as in CARs."""
    return b"".join((varint(sum(map(len, parts))), *parts))


def varint(value: int) -> bytes:
    """*value* as an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -- multibase ------------------------------------------------------------------------------

# A base with padding, and the one that spells the same without.
_UNPADDED = {"c": "b", "C": "B", "t": "v", "T": "V", "M": "m", "U": "u"}


@dataclass(frozen=True, slots=True)
class Base:
    """One base of the multibase table, by its *prefix*; libipld reads and writes it."""

    prefix: str

    def encode(self, data: bytes) -> str:
        """*data* in this base, without the multibase prefix."""
        return libipld.encode_multibase(self.prefix, data)[1:]

    def decode(self, text: str) -> bytes:
        """The bytes behind *text*; ValueError if it is not the one spelling of them."""
        if self.prefix in _UNPADDED:
            data = MULTIBASES[_UNPADDED[self.prefix]].decode(text.rstrip("="))
            if self.encode(data) != text:
                raise ValueError("the padding is wrong")
            return data
        try:
            _, data = libipld.decode_multibase(self.prefix + text)
        except ValueError:
            raise ValueError(self._fault(text)) from None
        if self.encode(data) != text:  # libipld takes letters of the other case as well
            raise ValueError(self._fault(text))
        return data

    def _fault(self, text: str) -> str:
        letters = self.encode(bytes(range(256)))  # all of them are in it
        odd = next((letter for letter in text if letter not in letters), None)
        return (
            "its length cannot be right" if odd is None else f"{odd!r} is not a letter of this base"
        )


MULTIBASES = {prefix: Base(prefix) for prefix in "079fFbBcCvVtThkKzZmMuU"}
BASE32, BASE36, BASE58BTC = MULTIBASES["b"], MULTIBASES["k"], MULTIBASES["z"]


def decode_multibase(text: str) -> bytes:
    """The bytes behind a multibase string; ValueError names what is wrong with it."""
    base = MULTIBASES.get(text[:1])
    if base is None:
        raise ValueError(f"{text[:1]!r} is not a multibase prefix this service reads")
    return base.decode(text[1:])


# -- multihash ------------------------------------------------------------------------------

IDENTITY = 0x00
SHA2_256 = 0x12
MAX_IDENTITY_BYTES = 128
_BLAKE2B, _BLAKE2S, _BLAKE2S_END = 0xB200, 0xB240, 0xB260
_MIN_BLAKE2_BYTES = 20

# code -> (name, digest bytes). The functions that Kubo accepts (boxo, verifcid's allow list).
HASHES: dict[int, tuple[str, int]] = {
    0x11: ("sha1", 20),
    SHA2_256: ("sha2-256", 32),
    0x13: ("sha2-512", 64),
    0x14: ("sha3-512", 64),
    0x15: ("sha3-384", 48),
    0x16: ("sha3-256", 32),
    0x17: ("sha3-224", 28),
    0x19: ("shake-256", 64),
    0x1A: ("keccak-224", 28),
    0x1B: ("keccak-256", 32),
    0x1C: ("keccak-384", 48),
    0x1D: ("keccak-512", 64),
    0x1E: ("blake3", 32),
    0x56: ("dbl-sha2-256", 32),
    **{_BLAKE2B + n: (f"blake2b-{n * 8}", n) for n in range(_MIN_BLAKE2_BYTES, 65)},
    **{_BLAKE2S + n: (f"blake2s-{n * 8}", n) for n in range(_MIN_BLAKE2_BYTES, 33)},
}


def check_multihash(code: int, digest: bytes) -> None:
    """ValueError unless *code* is a hash function we accept and *digest* has its length."""
    if code == IDENTITY:
        if len(digest) > MAX_IDENTITY_BYTES:
            raise ValueError(f"an identity hash may hold {MAX_IDENTITY_BYTES} bytes at most")
        return
    if code not in HASHES:
        raise ValueError(f"the hash function 0x{code:x} is not accepted")
    name, length = HASHES[code]
    if len(digest) != length:
        raise ValueError(f"a {name} digest has {length} bytes, not {len(digest)}")


def digest_of(code: int, data: bytes) -> bytes | None:
    """The digest of *data* under the hash function *code*, or None if we cannot compute it."""
    if code == IDENTITY:
        return data
    if _BLAKE2B < code <= _BLAKE2S:
        return blake2b(data, digest_size=code - _BLAKE2B).digest()
    if _BLAKE2S < code <= _BLAKE2S_END:
        return blake2s(data, digest_size=code - _BLAKE2S).digest()
    function = _FUNCTIONS.get(code)
    return function(data) if function else None


def _keccak(bits: int) -> Callable[[bytes], bytes]:
    def function(data: bytes) -> bytes:
        from Crypto.Hash import keccak  # noqa: PLC0415 - 60 ms to import, and seldom needed

        return bytes(keccak.new(digest_bits=bits, data=data).digest())

    return function


def _sha3(bits: int) -> Callable[[bytes], bytes]:
    return lambda data: new(f"sha3_{bits}", data).digest()


_FUNCTIONS: dict[int, Callable[[bytes], bytes]] = {
    0x11: lambda data: sha1(data, usedforsecurity=False).digest(),
    SHA2_256: lambda data: sha256(data).digest(),
    0x13: lambda data: sha512(data).digest(),
    0x14: _sha3(512),
    0x15: _sha3(384),
    0x16: _sha3(256),
    0x17: _sha3(224),
    0x19: lambda data: shake_256(data).digest(64),
    0x1A: _keccak(224),
    0x1B: _keccak(256),
    0x1C: _keccak(384),
    0x1D: _keccak(512),
    0x56: lambda data: sha256(sha256(data).digest()).digest(),
}
