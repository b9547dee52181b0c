"""The guard: where a URL that somebody else chose may lead, and the connector that sees to it.

Contracts choose the URLs of CCIP-Read gateways, so whoever owns a name could send us to the
machines beside us (docs/facts/edge.md, URLs chosen by others). The form of a URL is checked before
it is asked; the address is checked when the socket is made, where a literal, a DNS answer and a
second, different DNS answer look the same. Knows URLs and addresses only."""

import errno
import re
import socket
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from ssl import SSLContext
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.files.descriptors import open_socket
from content_gateway.model.addresses import DNS_NAME, Address, is_public
from content_gateway.net.public_dns import PublicDns

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

MAX_URL_CHARS: Final = 16 * 1024
_HTTPS: Final = 443
_WEB: Final = (80, 443)
_FIRST_FREE: Final = 1024  # below are the well-known services (RFC 6335)

# The characters of RFC 3986 and no others: nothing that two parsers could read in two ways. A
# host holds no `@`, so that there is no user; and `#` is missing, so that there is no fragment.
_URL: Final = re.compile(
    r"(?P<scheme>[a-z]+)://(?P<host>\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::(?P<port>[0-9]+))?"
    r"(?P<rest>(?:[/?][0-9a-z\-._~:/?\[\]@!$&'()*+,;=%]*)?)",
    re.ASCII | re.IGNORECASE,
)
_LOCAL: Final = re.compile(r"http://(?:(?P<v4>127\.0\.0\.1)|\[::1\]):(?P<port>[1-9][0-9]{0,4})")


class AddressRefused(OSError):
    """The address is not one that others may send us to."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "the address is not public")


class Guard:
    """Admits URLs and makes the connector for them.

    *local_gateways* are exceptions for tests and demonstrations on one machine: origins such as
    `http://127.0.0.1:8080`, each of which may be reached at just that address and port; ValueError
    for one that is not of that form. The other arguments are there for tests."""

    def __init__(
        self,
        *,
        local_gateways: Collection[str] = (),
        permits: Callable[[Address], bool] = is_public,
        port: int = _HTTPS,
        resolver: AbstractResolver | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self._local = {_local_socket(origin): origin for origin in local_gateways}
        self._permits = permits
        self._port = port
        self._resolver = resolver or PublicDns()
        self._tls = tls

    def check_url(self, url: str) -> URL:
        """*url*, ready to be asked; InvalidUpstreamResponse when its form alone forbids that.

        It is https on its own port, or of a local gateway; it has a host, no user, no fragment
        and no character that a URL cannot have. Where the host is, is left to the connector."""
        found = _URL.fullmatch(url) if len(url) <= MAX_URL_CHARS else None
        if found is None:
            raise InvalidUpstreamResponse("The gateway's URL is not one that can be asked.")
        scheme, host, rest = found["scheme"].lower(), found["host"].lower(), found["rest"]
        origin = f"{scheme}://{host}"
        if found["port"] is not None:
            origin += f":{found['port']}"
        if origin not in self._local.values() and not (
            scheme == "https"
            and found["port"] in ((None, "443") if self._port == _HTTPS else (str(self._port),))
            and _is_host(host)
        ):
            raise InvalidUpstreamResponse("The gateway's URL is not one that can be asked.")
        return URL(origin + (rest if rest.startswith("/") else "/" + rest), encoded=True)

    def connector(self) -> aiohttp.TCPConnector:
        """A connector whose sockets lead to permitted addresses only. Needs a running loop."""
        return aiohttp.TCPConnector(
            limit=0,  # HttpClient has limits of its own
            resolver=self._resolver,
            use_dns_cache=False,
            socket_factory=self._socket,
            ssl=self._tls or True,
        )

    def _socket(self, target: "AddrInfoType") -> socket.socket:
        """A socket for *target*, to which aiohttp connects it next; raises AddressRefused."""
        family, kind, protocol, _, sockaddr = target
        host, port = str(sockaddr[0]), int(sockaddr[1])
        if (host, port) not in self._local and not (port == self._port and self._allows(host)):
            raise AddressRefused
        return open_socket(family, kind, protocol)

    def _allows(self, host: str) -> bool:
        try:
            return self._permits(ip_address(host))
        except ValueError:
            return False


class OriginGuard(Guard):
    """Admits HTTP gateways that a requestor names as having the content of its pin.

    They may speak plain HTTP, and listen on the ports of the web, or on one that no well-known
    service has; with *private* also on addresses that are not public."""

    def __init__(self, *, private: bool = False) -> None:
        super().__init__(permits=lambda address: private or is_public(address))

    def check_url(self, url: str) -> URL:
        """*url*, ready to be asked; InvalidUpstreamResponse when its form alone forbids that."""
        allowed = URL(url, encoded=True)  # made by Multiaddr, which leaves nothing odd in it
        if allowed.port is None or not _is_open(allowed.port):
            raise InvalidUpstreamResponse("The origin's port is not one that gateways listen on.")
        return allowed

    def _socket(self, target: "AddrInfoType") -> socket.socket:
        family, kind, protocol, _, sockaddr = target
        if not (_is_open(int(sockaddr[1])) and self._allows(str(sockaddr[0]))):
            raise AddressRefused
        return open_socket(family, kind, protocol)


def _local_socket(origin: str) -> tuple[str, int]:
    """Address and port of a local gateway's *origin*; ValueError if it is not on loopback."""
    found = _LOCAL.fullmatch(origin)
    # No guarded URL may lead to port 443 of an exempt address by another name.
    if found and 0 < int(found["port"]) < 65536 and int(found["port"]) != _HTTPS:
        return found["v4"] or "::1", int(found["port"])
    raise ValueError(f"{origin!r} is not of the form http://127.0.0.1:8080")


def _is_host(host: str) -> bool:
    """Whether *host*, in lower case, is an IP literal or the full name of a public host."""
    if DNS_NAME.fullmatch(host):
        return True
    try:
        if host.startswith("["):
            return bool(IPv6Address(host[1:-1]))
        return bool(IPv4Address(host))
    except ValueError:
        return False


def _is_open(port: int) -> bool:
    return port in _WEB or port >= _FIRST_FREE
