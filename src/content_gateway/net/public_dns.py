"""Public DNS: the addresses of a host name that somebody else chose.

Asks DNS and nothing else: no hosts file and no search list, which are about the operator's own
network, and no thread that a slow zone could keep. Which addresses may be connected to is left
to the guard."""

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, Final

import dns.asyncquery
import dns.asyncresolver
import dns.exception
import dns.message
import dns.nameserver
import dns.resolver
from aiohttp.abc import AbstractResolver, ResolveResult

from content_gateway.files.descriptors import own_lack

MAX_ADDRESSES: Final = 4  # a hostile zone may list thousands
SECONDS: Final = 2.0
_PORT: Final = 53
_DATAGRAM: Final = 1232  # bytes that pass every network whole (DNS flag day 2020)


class PublicDns(AbstractResolver):
    """Looks names up at the system's nameservers, or at *nameservers* (address and port).

    A question and its answer are one datagram each; *seconds* bounds a lookup."""

    def __init__(
        self, *, nameservers: Sequence[tuple[str, int]] = (), seconds: float = SECONDS
    ) -> None:
        self._nameservers = nameservers
        self._seconds = seconds

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """At most MAX_ADDRESSES of *host*, IPv6 and IPv4 in turn.

        Raises OSError when there is none, or when nobody could tell."""
        try:
            resolver = self._resolver()
            found = await asyncio.gather(
                _addresses(resolver, host, "AAAA"), _addresses(resolver, host, "A")
            )
        except (dns.exception.DNSException, ValueError, OSError) as failed:
            if lack := own_lack(failed):
                raise lack from failed
            raise OSError(f"DNS cannot be asked: {type(failed).__name__}") from failed
        in_turn = [address for address in chain(*zip_longest(*found)) if address is not None]
        if not in_turn:
            raise OSError("DNS gave no address")
        return [_result(host, port, address) for address in in_turn[:MAX_ADDRESSES]]

    async def close(self) -> None:
        """Nothing is kept between two lookups."""

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """The system's configuration is read again each time, as it changes with the network."""
        resolver = dns.asyncresolver.Resolver(configure=not self._nameservers)
        servers = self._nameservers or [(str(server), _PORT) for server in resolver.nameservers]
        resolver.nameservers = [_OneDatagram(address, port) for address, port in servers]
        resolver.lifetime, resolver.timeout = self._seconds, self._seconds / 4
        resolver.use_edns(0, 0, _DATAGRAM)
        return resolver


class _OneDatagram(dns.nameserver.Do53Nameserver):
    """Takes what fits in one datagram for the answer: no second try over TCP.

    The addresses beyond are not missed, and reading 64 KiB of them would hold up the loop."""

    async def async_query(
        self, request: dns.message.QueryMessage, *_: Any, **options: Any
    ) -> dns.message.Message:
        return await dns.asyncquery.udp(
            request,
            self.address,
            timeout=options["timeout"],
            port=self.port,
            backend=options["backend"],
            ignore_errors=True,  # a datagram that answers another question is passed over
            ignore_unexpected=True,
        )


async def _addresses(resolver: dns.asyncresolver.Resolver, host: str, kind: str) -> list[str]:
    """The addresses of one family; none when the family failed, as the other may do."""
    try:
        answer = await resolver.resolve(host, kind, search=False, raise_on_no_answer=False)
    except dns.resolver.NoNameservers as failed:
        for _, _, _, error, _ in failed.kwargs["errors"]:
            if isinstance(error, OSError) and own_lack(error):
                raise error from failed  # says nothing about the family, nor about the host
        return []
    except dns.exception.DNSException:
        return []
    return [str(record.address) for record in answer.rrset or ()]


def _result(host: str, port: int, address: str) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST,
    )
