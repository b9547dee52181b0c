"""What a contenthash says (ENSIP-7), read without any code of ours: the oracle's second half.

Knows the tables of multicodec and multihash as far as the design names them, and base32, base36
and base58. A contenthash that says nothing is told as such: its owner wrote it, nobody failed."""

import base64
import re
from typing import Final


class Unreadable(Exception):
    """The bytes say nothing, or what cannot be."""


def in_base(data: bytes, alphabet: str) -> str:
    """*data* as one large number, leading zero bytes kept (base36, base58)."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(alphabet))
        text = alphabet[digit] + text
    return alphabet[0] * (len(data) - len(data.lstrip(b"\0"))) + text


BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


# What a cluster can keep, by the tables of multicodec: see docs/facts/pins.md and Kubo's.
_CODECS: Final = {0x55, 0x70, 0x71, 0x0129, 0x51, 0x0200, 0x78, 0x85}
_DIGESTS: Final = {
    **{0x11: 20, 0x12: 32, 0x13: 64, 0x14: 64, 0x15: 48, 0x16: 32, 0x17: 28, 0x19: 64},
    **{0x1A: 28, 0x1B: 32, 0x1C: 48, 0x1D: 64, 0x1E: 32, 0x56: 32},
    **{0xB200 + n: n for n in range(20, 65)},
    **{0xB240 + n: n for n in range(20, 33)},
}
_DOMAIN: Final = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?",
    re.ASCII,
)
UNREADABLE: Final = "unreadable"


def content_of(value: bytes) -> tuple[str, str] | None:
    """What a contenthash says, as (kind, text); None where it is empty."""
    if not value:
        return None
    try:
        if len(value) > 512:
            raise Unreadable("too long")
        namespace, rest = uvarint(value)
        return _content(namespace, rest)
    except Unreadable:
        return UNREADABLE, ""


def uvarint(data: bytes) -> tuple[int, bytes]:
    """The number at the beginning of *data*, in its shortest form, and what stands behind it."""
    for length in range(1, 10):
        if len(data) < length:
            break
        if data[length - 1] < 0x80:
            if length > 1 and not data[length - 1]:
                break
            return sum((data[n] & 0x7F) << 7 * n for n in range(length)), data[length:]
    raise Unreadable("no number")


def multihash(data: bytes) -> tuple[int, bytes]:
    """Hash function and digest, of a length that fits it."""
    code, rest = uvarint(data)
    length, digest = uvarint(rest)
    if len(digest) != length or (length > 128 if code == 0 else _DIGESTS.get(code) != length):
        raise Unreadable("no multihash")
    return code, digest


def _content(namespace: int, rest: bytes) -> tuple[str, str]:
    if namespace in (0xE3, 0xE5):
        if namespace == 0xE3 and rest[:2] == b"\x12\x20" and len(rest) == 34:
            rest = b"\x01\x70" + rest  # version 0
        version, codec_and_hash = uvarint(rest)
        codec, hashed = uvarint(codec_and_hash)
        if version != 1:
            raise Unreadable("no such version")
        if namespace == 0xE5 or rest[:2] == b"\x01\x72":
            return "ipns", _ipns(codec, hashed)
        if codec not in _CODECS:
            raise Unreadable("no such codec")
        multihash(hashed)
        return "ipfs", "b" + base64.b32encode(rest).decode().lower().rstrip("=")
    if namespace == 0xE4 and rest[:5] == bytes.fromhex("01fa011b20") and len(rest) == 37:
        return "swarm", rest[5:].hex()
    for code, name, length in ((0xB29910, "arweave", 32), (0xB19910, "skynet", 34)):
        if namespace == code and len(rest) == length:
            return name, base64.urlsafe_b64encode(rest).decode().rstrip("=")
    for code, name, length in ((0x1BC, "onion", 16), (0x1BD, "onion3", 56)):
        if namespace == code and len(rest) == length and re.fullmatch(rb"[0-9A-Za-z]+", rest):
            return name, rest.decode()
    raise Unreadable("no such namespace")


def _ipns(codec: int, hashed: bytes) -> str:
    """A key in base36, or the DNSLink domain that old tools wrote as an identity hash."""
    if codec not in (0x72, 0x70):
        raise Unreadable("no such codec")
    if codec == 0x70 and hashed[:1] == b"\0":
        length, domain = uvarint(hashed[1:])
        text = domain.decode("latin-1").lower()
        if length != len(domain) or not _DOMAIN.fullmatch(text):
            raise Unreadable("no domain")
        return text
    code, digest = multihash(hashed)
    if code not in (0x00, 0x12) or not digest:
        raise Unreadable("no key")
    return "k" + in_base(b"\x01\x72" + hashed, BASE36)
