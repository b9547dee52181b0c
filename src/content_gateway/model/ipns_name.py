"""The IPNS name: a key in any spelling, or a DNSLink domain.

Knows the spellings of ipfs/specs `ipns-record.md` (CIDv1 libp2p-key, bare base58 peer id) and
the shape of DNS names. Fetching and verifying records is left to `ipns/`."""

import re
from dataclasses import dataclass
from typing import Final, Self

from content_gateway.codecs.multiformats import (
    BASE36,
    BASE58BTC,
    IDENTITY,
    SHA2_256,
    check_multihash,
    decode_multibase,
    read_varint,
    varint,
)
from content_gateway.codecs.printable import quoted
from content_gateway.errors import InvalidIpnsName
from content_gateway.model.cid import DAG_PB, LIBP2P_KEY, MAX_TEXT

MAX_RECORD_BYTES: Final = 10 * 1024  # ipfs/specs ipns-record.md
_LIBP2P_KEY_HEAD: Final = b"\x01" + varint(LIBP2P_KEY)
_PREFIX: Final = re.compile(r"/ipns/|ipns://")
_DNS_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_DNS_LABEL}(?:\.{_DNS_LABEL})+", re.ASCII)
_SHORT: Final = 40  # nobody has misspelt a key who sends less


@dataclass(frozen=True, slots=True)
class IpnsName:
    """*text* is the canonical spelling: base36 CIDv1 for a key, lower case for a domain.

    *multihash* identifies the key; it is empty for a DNSLink domain."""

    text: str
    multihash: bytes = b""

    @property
    def is_dnslink(self) -> bool:
        """True when the name is a domain whose TXT record says where it points."""
        return not self.multihash

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name spelt *text*, which may be its path or URL; raises InvalidIpnsName."""
        if prefix := _PREFIX.match(text):
            text = text[prefix.end() :].removesuffix("/")
        if len(text) > MAX_TEXT:
            raise InvalidIpnsName("The IPNS name is too long.")
        if "." in text:
            return cls._dnslink(text)
        try:
            if text.startswith(("12D3Koo", "16Uiu2HA", "Qm")):
                return cls.from_multihash(BASE58BTC.decode(text))
            data = decode_multibase(text)
            if data[:2] != _LIBP2P_KEY_HEAD:
                raise ValueError("it is not a CIDv1 of a libp2p key")
            return cls.from_cid(data)
        except ValueError as wrong:
            fault = wrong if len(text) >= _SHORT else "it is neither a key (k51...) nor a domain"
            raise InvalidIpnsName(f"{quoted(text)} is no IPNS name: {fault}.") from wrong

    @classmethod
    def from_cid(cls, data: bytes) -> Self:
        """The name in a binary CIDv1; ValueError says what is wrong.

        An identity hash under dag-pb is a DNSLink domain, as old contenthashes wrote it."""
        version, at = read_varint(data)
        codec, at = read_varint(data, at)
        if version != 1 or codec not in (LIBP2P_KEY, DAG_PB):
            raise ValueError("it is not a CIDv1 of a libp2p key")
        if codec == DAG_PB and data[at : at + 1] == bytes((IDENTITY,)):
            length, start = read_varint(data, at + 1)
            if len(data) - start != length:
                raise ValueError("the length of the domain is wrong")
            return cls._dnslink(data[start:].decode("ascii", "replace"))
        return cls.from_multihash(data[at:])

    @classmethod
    def from_multihash(cls, data: bytes) -> Self:
        """The name of the key whose multihash is *data*; ValueError says what is wrong."""
        code, at = read_varint(data)
        length, at = read_varint(data, at)
        if code not in (IDENTITY, SHA2_256):
            raise ValueError("a key is named by sha2-256 or by itself")
        if len(data) - at != length or not length:
            raise ValueError("the length of the key's hash is wrong")
        check_multihash(code, data[at:])
        cid = b"\x01" + varint(LIBP2P_KEY) + data
        return cls("k" + BASE36.encode(cid), bytes(data))

    @classmethod
    def _dnslink(cls, text: str) -> Self:
        domain = text.lower()
        if not _DNS_NAME.fullmatch(domain):
            raise InvalidIpnsName(f"{quoted(text)} is no IPNS name: it is not a DNS name.")
        return cls(domain)

    def __str__(self) -> str:
        return self.text
