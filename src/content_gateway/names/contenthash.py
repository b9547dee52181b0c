"""contenthash: the bytes a resolver holds (ENSIP-7, EIP-1577) to a content record.

Knows the namespace codecs and how each network writes its own identifiers. Strict: trailing
bytes, odd lengths and unknown namespaces are refused with ValueError. Does no I/O."""

from base64 import urlsafe_b64encode
from typing import Final

from content_gateway.codecs.multiformats import read_varint
from content_gateway.errors import InvalidCid, InvalidIpnsName
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    ContentRecord,
    IpfsContent,
    IpnsContent,
    OtherContent,
)

MAX_BYTES: Final = 512
MAX_DATA_URL: Final = 2048

_IPFS, _SWARM, _IPNS, _ONION, _ONION3 = 0xE3, 0xE4, 0xE5, 0x01BC, 0x01BD
_SKYNET, _ARWEAVE = 0xB19910, 0xB29910
_SWARM_HEAD: Final = bytes.fromhex("01fa011b20")  # CIDv1, swarm-manifest, keccak-256, 32 bytes
_LIBP2P_KEY_HEAD: Final = b"\x01\x72"


def decode(data: bytes) -> ContentRecord | None:
    """The record in a contenthash; None if it is empty (no record). ValueError if it is wrong."""
    if not data:
        return None
    # A draft of ENSIP-17 has resolvers give the URL itself (RFC 2397); no namespace begins like it.
    if data.startswith(b"data:") and len(data) <= MAX_DATA_URL:
        return _data_url(data)
    if len(data) > MAX_BYTES:
        raise ValueError(f"a contenthash has {MAX_BYTES} bytes at most, this one {len(data)}")
    # EIP-1577: the namespace is a varint, so ipfs-ns (0xe3) arrives as e3 01.
    namespace, at = read_varint(data)
    value = data[at:]
    try:
        # An ipfs-ns that carries a libp2p key occurs in practice: it is an IPNS name.
        if namespace == _IPNS or (namespace == _IPFS and value[:2] == _LIBP2P_KEY_HEAD):
            return IpnsContent(IpnsName.from_cid(value))
        if namespace == _IPFS:
            return IpfsContent(Cid.from_bytes(value))
    except (InvalidIpnsName, InvalidCid) as wrong:
        raise ValueError(wrong.detail) from wrong
    return _other(namespace, value)


def _data_url(data: bytes) -> OtherContent:
    text = data.decode("ascii")
    if not text.isprintable() or "," not in text:
        raise ValueError("a data URL has no comma, or characters that are none of a URL")
    return OtherContent("data-url", text)


def _other(namespace: int, value: bytes) -> OtherContent:
    if namespace == _SWARM and value[:5] == _SWARM_HEAD and len(value) == 37:
        return OtherContent("swarm", value[5:].hex())
    if namespace == _ARWEAVE and len(value) == 32:
        return OtherContent("arweave", _base64url(value))
    if namespace == _SKYNET and len(value) == 34:
        return OtherContent("skynet", _base64url(value))
    if (namespace, len(value)) in ((_ONION, 16), (_ONION3, 56)) and value.isalnum():
        return OtherContent("onion" if namespace == _ONION else "onion3", value.decode("ascii"))
    raise ValueError(f"the namespace 0x{namespace:x} is unknown or its value is malformed")


def _base64url(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")
