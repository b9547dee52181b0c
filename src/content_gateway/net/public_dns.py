"""Public DNS: the addresses of a host name that somebody else chose, for aiohttp.

Asks DNS and nothing else: no hosts file and no search list, which are about the operator's own
network. Which addresses may be connected to is left to the guard."""

import asyncio
import errno
import os
import socket
from itertools import chain, zip_longest
from typing import Final, Literal

from aiohttp.abc import AbstractResolver, ResolveResult

from content_gateway.errors import Overloaded, UpstreamError
from content_gateway.net.dns import Dns

MAX_ADDRESSES: Final = 4  # a hostile zone may list thousands
SECONDS: Final = 2.0


class PublicDns(AbstractResolver):
    """Addresses as *dns* has them, by default the system's nameservers.

    A question and its answer are one datagram each: the addresses beyond are not missed."""

    def __init__(self, dns: Dns | None = None) -> None:
        self._dns = dns or Dns(seconds=SECONDS, over_tcp=False)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """At most MAX_ADDRESSES of *host*, IPv6 and IPv4 in turn.

        Raises OSError when there is none, or when nobody could tell."""
        found = await asyncio.gather(self._addresses(host, "AAAA"), self._addresses(host, "A"))
        in_turn = [address for address in chain(*zip_longest(*found)) if address is not None]
        if not in_turn:
            raise OSError("DNS gave no address")
        return [_result(host, port, address) for address in in_turn[:MAX_ADDRESSES]]

    async def close(self) -> None:
        """Nothing is kept between two lookups."""

    async def _addresses(self, host: str, kind: Literal["A", "AAAA"]) -> list[str]:
        """The addresses of one family; none when the family failed, as the other may do."""
        try:
            answer = await self._dns.ask(host, kind)
        except Overloaded as ours:  # says nothing about the family, nor about the host
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from ours
        except UpstreamError:
            return []
        return [str(record.address) for record in answer or ()]


def _result(host: str, port: int, address: str) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=socket.IPPROTO_TCP,
        flags=socket.AI_NUMERICHOST,
    )
