"""The multiaddr: where a node, or an HTTP gateway, can be reached.

Knows the text form and the protocols that Kubo and IPFS Cluster can dial (multiformats/multiaddr,
its table of protocols; go-multiaddr for the form of each value). Parsing is the only way in, and it
is strict: what is wrong in it would be refused by a cluster that pins all the same."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Self
from urllib.parse import quote, unquote

from content_gateway.codecs.multiformats import (
    BASE58BTC,
    check_multihash,
    decode_multibase,
    read_varint,
)
from content_gateway.errors import InvalidIpnsName
from content_gateway.model.addresses import Address, is_public, is_public_name
from content_gateway.model.ipns_name import IpnsName

MAX_CHARS: Final = 1024
_MAX_PARTS: Final = 16
_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[0-9a-z_](?:[0-9a-z_-]*[0-9a-z_])?(?:\.[0-9a-z_-]{1,63})*\.?",
    re.ASCII | re.IGNORECASE,
)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_HTTP_PATH: Final = re.compile(r"(?:[0-9A-Za-z._~+-]|%[0-9A-Fa-f]{2})+", re.ASCII)


def _ip6(text: str) -> None:
    if "%" in text:
        raise ValueError("a zone is known on one machine only")
    IPv6Address(text)


def _host(text: str) -> None:
    if not _HOST.fullmatch(text):
        raise ValueError("it is not the name of a host")


def _port(text: str) -> None:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError("a port is a number from 1 to 65535")


def _sni(text: str) -> None:
    _host(text.removeprefix("*."))


def _peer(text: str) -> None:
    """A peer id (libp2p specs, peer-ids): the multihash of a key in base58, or its CID."""
    if text.startswith(("Qm", "1")):
        IpnsName.from_multihash(BASE58BTC.decode(text))
    elif IpnsName.parse(text).is_dnslink:
        raise ValueError("it is not the id of a peer")


def _certhash(text: str) -> None:
    data = decode_multibase(text)
    code, at = read_varint(data)
    length, at = read_varint(data, at)
    if len(data) - at != length:
        raise ValueError("the length of the hash is wrong")
    check_multihash(code, data[at:])


def _http_path(text: str) -> None:
    if not _HTTP_PATH.fullmatch(text):
        raise ValueError("it is not an encoded path")


_HOSTS: Final = ("ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr")
# The check of each protocol's value; None: it has none.
_PROTOCOLS: Final[Mapping[str, Callable[[str], object] | None]] = {
    "ip4": IPv4Address,
    "ip6": _ip6,
    **dict.fromkeys(("dns", "dns4", "dns6", "dnsaddr"), _host),
    **dict.fromkeys(("tcp", "udp"), _port),
    **dict.fromkeys(("p2p", "ipfs"), _peer),
    "sni": _sni,
    "certhash": _certhash,
    "http-path": _http_path,
    **dict.fromkeys(("tls", "noise", "ws", "wss", "http", "https", "quic", "quic-v1")),
    **dict.fromkeys(("webtransport", "webrtc", "webrtc-direct", "p2p-circuit")),
}
_PEERS: Final = ("p2p", "ipfs")
_NAMES: Final = {"ipfs": "p2p"}  # the old one, and what it is now


@dataclass(frozen=True, slots=True)
class Multiaddr:
    """*text* as it was spelt, and its *parts*: each protocol with its value, "" where it has none.

    The first part is a host; the second, but behind a dnsaddr, a port."""

    text: str
    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The multiaddr in *text*; ValueError says what is wrong with it."""
        if len(text) > MAX_CHARS:
            raise ValueError(f"it has more than {MAX_CHARS} characters")
        first, *words = text.split("/")
        if first or not words:
            raise ValueError("it does not begin with /")
        parts: list[tuple[str, str]] = []
        left = iter(words)
        for name in left:
            parts.append((name, _value(name, left)))
            if len(parts) > _MAX_PARTS:
                raise ValueError(f"it has more than {_MAX_PARTS} parts")
        _check_order([name for name, _ in parts])
        return cls(text, tuple(parts))

    @property
    def host(self) -> Address | str:
        """The address, or the name, that is connected to: a relay's, where there is one."""
        name, value = self.parts[0]
        if name == "ip4":
            return IPv4Address(value)
        return IPv6Address(value) if name == "ip6" else value

    @property
    def is_public(self) -> bool:
        """Whether its host is one of the public internet, as far as an address or a name tells."""
        host = self.host
        return is_public_name(host) if isinstance(host, str) else is_public(host)

    @property
    def peer_id(self) -> str | None:
        """Whom it leads to; None where it does not say."""
        name, value = self.parts[-1]
        return value if name in _PEERS else None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The same for each spelling of one multiaddr, as go-multiaddr spells it in its own way."""
        return tuple(
            (_NAMES.get(name, name), _canonical(name, value)) for name, value in self.parts
        )

    @property
    def gateway_url(self) -> str | None:
        """The URL of the HTTP gateway that it leads to; None where it is none."""
        names = [name for name, _ in self.parts if name not in (*_PEERS, "sni")]
        path = ""
        if names[-1] == "http-path":
            names.pop()
            path = "/" + quote(unquote(dict(self.parts)["http-path"]), safe="/")
        scheme = _SCHEMES.get(tuple(names[2:]))
        if scheme is None or names[1] != "tcp":
            return None
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)
        return f"{scheme}://{host}:{self.parts[1][1]}{path}"

    def __str__(self) -> str:
        return self.text


# What follows the port of an HTTP gateway. `https` is the old name of tls and http.
_SCHEMES: Final = {
    ("http",): "http",
    ("https",): "https",
    ("tls", "http"): "https",
    ("tls", "https"): "https",
}


def _value(name: str, left: Iterator[str]) -> str:
    """The value of the protocol *name*, taken from what is *left*; ValueError where it is wrong."""
    if name not in _PROTOCOLS:
        raise ValueError(f"there is no protocol '{name[:20]}' that nodes are reached by")
    check = _PROTOCOLS[name]
    if check is None:
        return ""
    value = next(left, "")
    try:
        check(value)
    except (ValueError, InvalidIpnsName) as wrong:
        raise ValueError(f"the value of {name} is wrong") from wrong
    return value


def _canonical(name: str, value: str) -> str:
    if name in _PEERS:
        is_bare = value.startswith(("Qm", "1"))
        peer = BASE58BTC.decode(value) if is_bare else IpnsName.parse(value).multihash
        return peer.hex()
    if name == "ip6":
        return str(IPv6Address(value))
    return decode_multibase(value).hex() if name == "certhash" else value


def _check_order(names: list[str]) -> None:
    """ValueError unless protocols follow each other as a dialler takes them."""
    if names[0] not in _HOSTS:
        raise ValueError("it does not begin with the address or the name of a host")
    rest = names[1:]
    if names[0] != "dnsaddr":
        if not rest or rest[0] not in ("tcp", "udp"):
            raise ValueError("its host has no port")
        rest = rest[1:]
    elif rest and rest[0] in ("tcp", "udp"):
        rest = rest[1:]
    if any(name in (*_HOSTS, "tcp", "udp") for name in rest):
        raise ValueError("it has more than one host or port")
    relays = rest.count("p2p-circuit")
    if relays > 1:
        raise ValueError("it leads through more than one relay")
    for number, name in enumerate(rest):
        follows = rest[number + 1 : number + 2]
        if name in _PEERS and follows not in ([], ["p2p-circuit"]):
            raise ValueError("the id of a peer is not at its end")
        if name == "p2p-circuit" and (number == 0 or rest[number - 1] not in _PEERS):
            raise ValueError("its relay has no id")
        if name == "p2p-circuit" and not (follows and follows[0] in _PEERS):
            raise ValueError("nobody is named behind its relay")
