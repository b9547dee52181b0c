"""DNS: questions to the nameservers of the system, or to those that the operator chose.

Knows which nameservers are asked, by whom, and how long; `dns_client.py` speaks to them. What the
records mean is left to `public_dns.py` (addresses) and `ipns/sources/dnslink.py` (TXT)."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Literal

from content_gateway.errors import Overloaded

if TYPE_CHECKING:
    import dns.resolver

    from content_gateway.codecs.dns_message import DnsQuestion, DnsReply
    from content_gateway.net.dns_client import DnsClient

SYSTEM: Final = "/etc/resolv.conf"
PORT: Final = 53
CANNOT_ASK: Final = "DNS cannot be asked from here now."


class Dns:
    """Asks *nameservers* (IP addresses), or those of the file *system*; *seconds* bound a question.

    Without *over_tcp* an answer is what fits into one datagram. ValueError for a bad address."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        seconds: float,
        port: int = PORT,
        system: str = SYSTEM,
        over_tcp: bool = True,
    ) -> None:
        self.nameservers = [str(ip_address(address)) for address in nameservers]
        self.seconds = seconds
        self.port = port
        self.system = system
        self.over_tcp = over_tcp
        self._client: DnsClient | None = None

    async def ask(
        self, host: str, kind: Literal["A", "AAAA", "TXT"]
    ) -> "dns.resolver.Answer | None":
        """The records of *kind* of the absolute name *host*, None if there are none.

        Raises Overloaded where nothing could be asked from here, UpstreamTimeout,
        UpstreamUnavailable when no nameserver can be reached or could find out,
        InvalidUpstreamResponse when the answer cannot be right."""
        return await (await self._loaded()).ask(host, kind)

    async def forward(self, question: "DnsQuestion") -> "DnsReply":
        """What the nameservers answer to *question*, whatever it is about; raises as `ask`."""
        return await (await self._loaded()).forward(question)

    async def _loaded(self) -> "DnsClient":
        if self._client is None:
            # dnspython takes 120 ms to import: not at the start, and not on the event loop.
            try:
                client = await asyncio.to_thread(_load_client)
            except OSError as failed:  # no descriptor for the files of an installed package
                raise Overloaded(CANNOT_ASK) from failed
            self._client = client(self)
        return self._client


def _load_client() -> "type[DnsClient]":
    from content_gateway.net.dns_client import DnsClient  # noqa: PLC0415

    return DnsClient
