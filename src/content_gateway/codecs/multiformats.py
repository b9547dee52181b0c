"""Multiformats: varint, multibase and the multihash table, bytes to bytes.

Strict both ways: one byte string has one spelling per base, so non-minimal varints, stray
padding and left-over bits are refused with ValueError. Knows the public tables (multiformats
specs: unsigned-varint, multibase, multicodec) and nothing of what they are used for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, blake2s, new, sha1, sha256, sha512, shake_256

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


def varint(value: int) -> bytes:
    """*value* as an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -- multibase ------------------------------------------------------------------------------

_RFC4648_LOWER = "abcdefghijklmnopqrstuvwxyz234567"
_HEX32_LOWER = "0123456789abcdefghijklmnopqrstuv"
_BASE36_LOWER = "0123456789abcdefghijklmnopqrstuvwxyz"
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64URL = _BASE64[:-2] + "-_"
_BASE58BTC = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58FLICKR = "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Base:
    """One base of the multibase table.

    *bits* is the width of a character where the alphabet is a power of two (RFC 4648), else 0:
    then the bytes are read as one number and leading zero bytes become leading first letters."""

    alphabet: str
    bits: int = 0
    padded: bool = False

    def encode(self, data: bytes) -> str:
        """*data* in this base, without the multibase prefix."""
        return self._pack(data) if self.bits else self._count(data)

    def decode(self, text: str) -> bytes:
        """The bytes behind *text*; ValueError if it is not the one spelling of them."""
        if not self.bits:
            return self._uncount(self._digits(text))
        if not self.padded:
            return self._unpack(text)
        data = self._unpack(text.rstrip("="))
        if self._pack(data) != text:
            raise ValueError("the padding is wrong")
        return data

    def _digits(self, letters: str) -> list[int]:
        values = _values(self.alphabet)
        try:
            return [values[letter] for letter in letters]
        except KeyError as wrong:
            raise ValueError(f"{wrong.args[0]!r} is not a letter of this base") from None

    def _pack(self, data: bytes) -> str:
        length = -(-len(data) * 8 // self.bits)
        pairs = _pairs(self.alphabet)  # two letters at a time: a CID is written in half the time
        spare = length * self.bits - len(data) * 8 + self.bits * (length % 2)
        number = int.from_bytes(data, "big") << spare
        mask = len(pairs) - 1
        shifts = range((length + length % 2 - 2) * self.bits, -1, -2 * self.bits)
        text = "".join([pairs[number >> shift & mask] for shift in shifts])[:length]
        group = {5: 8, 6: 4}.get(self.bits, 1) if self.padded else 1
        return text + "=" * (-len(text) % group)

    def _unpack(self, letters: str) -> bytes:
        total = len(letters) * self.bits
        spare = total % 8
        number = self._number(letters)
        if spare >= self.bits or number & ((1 << spare) - 1):
            raise ValueError("bits are left over")
        return (number >> spare).to_bytes(total // 8, "big")

    def _number(self, letters: str) -> int:
        """All digits as one number; int() reads those of up to 36 letters, in C."""
        if self.bits > 5 or not letters:
            number = 0
            for digit in self._digits(letters):
                number = number << self.bits | digit
            return number
        try:
            return int(letters.translate(_as_digits(self.alphabet)), 1 << self.bits)
        except ValueError:
            self._digits(letters)
            raise

    def _count(self, data: bytes) -> str:
        number, radix, text = int.from_bytes(data, "big"), len(self.alphabet), []
        while number:
            number, digit = divmod(number, radix)
            text.append(self.alphabet[digit])
        zeros = len(data) - len(data.lstrip(b"\0"))
        return self.alphabet[0] * zeros + "".join(reversed(text))

    def _uncount(self, digits: list[int]) -> bytes:
        number, radix = 0, len(self.alphabet)
        for digit in digits:
            number = number * radix + digit
        zeros = next((i for i, digit in enumerate(digits) if digit), len(digits))
        return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


@cache
def _values(alphabet: str) -> dict[str, int]:
    return {char: value for value, char in enumerate(alphabet)}


class _Digits(dict[int, str]):
    """A translation in which every character that is no letter of the alphabet is no digit."""

    def __missing__(self, char: int) -> str:
        return "!"


@cache
def _as_digits(alphabet: str) -> _Digits:
    """The letters of *alphabet* as the digits that int() reads."""
    return _Digits(zip(map(ord, alphabet), _BASE36_LOWER, strict=False))


@cache
def _pairs(alphabet: str) -> list[str]:
    return [first + second for first in alphabet for second in alphabet]


BASE58BTC = Base(_BASE58BTC)
BASE32 = Base(_RFC4648_LOWER, 5)
BASE36 = Base(_BASE36_LOWER)

MULTIBASES = {
    "0": Base("01", 1),
    "7": Base("01234567", 3),
    "9": Base("0123456789"),
    "f": Base("0123456789abcdef", 4),
    "F": Base("0123456789ABCDEF", 4),
    "b": BASE32,
    "B": Base(_RFC4648_LOWER.upper(), 5),
    "c": Base(_RFC4648_LOWER, 5, padded=True),
    "C": Base(_RFC4648_LOWER.upper(), 5, padded=True),
    "v": Base(_HEX32_LOWER, 5),
    "V": Base(_HEX32_LOWER.upper(), 5),
    "t": Base(_HEX32_LOWER, 5, padded=True),
    "T": Base(_HEX32_LOWER.upper(), 5, padded=True),
    "h": Base("ybndrfg8ejkmcpqxot1uwisza345h769", 5),
    "k": BASE36,
    "K": Base(_BASE36_LOWER.upper()),
    "z": BASE58BTC,
    "Z": Base(_BASE58FLICKR),
    "m": Base(_BASE64, 6),
    "M": Base(_BASE64, 6, padded=True),
    "u": Base(_BASE64URL, 6),
    "U": Base(_BASE64URL, 6, padded=True),
}


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
