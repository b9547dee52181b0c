"""The guard of origins: HTTP gateways that a requestor names as having the content of its pin.

Such a gateway may speak plain HTTP, and listen where gateways do: on the ports of the web, or on
one that no well-known service has. Where it is, is looked at when the socket is made, as for every
URL that somebody else chose (ssrf_guard.py)."""

import socket
from typing import TYPE_CHECKING, Final

from yarl import URL

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.files.descriptors import open_socket
from content_gateway.model.addresses import is_public
from content_gateway.net.ssrf_guard import AddressRefused, Guard

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

_WEB: Final = (80, 443)
_FIRST_FREE: Final = 1024  # below are the well-known services (RFC 6335)


class OriginGuard(Guard):
    """Admits the URLs of origins; with *private* also on addresses that are not public."""

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


def _is_open(port: int) -> bool:
    return port in _WEB or port >= _FIRST_FREE
