"""Whom a request comes from behind a proxy: X-Forwarded-For, as far as trusted proxies wrote it.

Knows the field and the operator's proxies. Each appends the address that it was asked from, so that
the last entries are theirs; what stands before them anybody may have sent, and is not read."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from content_gateway.http.messages import listed

MAX_PROXIES: Final = 8  # in a row: a loop of them is no chain


class TrustedProxies:
    """The proxies in *networks*, addresses included, in CIDR notation."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [ip_network(network) for network in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def client_of(self, address: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address of the client behind *address*, which is the client itself unless it is a
        trusted proxy's; where such a proxy names none, its own."""
        client = _parsed(address)
        if client is None or not self._trusts(client):
            return address
        fields = [value for name, value in headers if name == b"x-forwarded-for"]
        for entry in reversed(listed(b",".join(fields))[-MAX_PROXIES:]):
            before = _parsed(entry.decode("latin-1"))
            if before is None:
                break
            client = before
            if not self._trusts(client):
                break
        return str(client)

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """The address *text*, of IPv4 where it is one in the form of IPv6; None for anything else."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
