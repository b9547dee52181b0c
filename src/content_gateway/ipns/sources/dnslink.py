"""DNSLink: where a domain says, in a TXT record of `_dnslink.<domain>`, that it points.

Knows the records (dnslink.dev). DNS is asked by `net/dns.py`, and following the path is left to
`ipns/`; nothing here can be verified, so that an answer is as true as the DNS resolver is."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.model.content_path import parse_content_path
from content_gateway.net.dns import Dns

PREFIX: Final = b"dnslink="


@dataclass(frozen=True, slots=True)
class DnsLink:
    """Where a domain points: *path* is `/ipfs/...` or `/ipns/...`, *ttl* how long DNS says so."""

    path: str
    ttl: timedelta


def read_dnslink(strings: Iterable[bytes]) -> str | None:
    """The content path among the TXT records *strings*, None if there is none.

    Records of other kinds, of unknown namespaces and malformed ones are passed over. Raises
    InvalidUpstreamResponse when more than one is left: which is meant, only the owner could say."""
    links = [text.removeprefix(PREFIX) for text in strings if text.startswith(PREFIX)]
    paths = {path for link in links if (path := _content_path(link)) is not None}
    if len(paths) > 1:
        raise InvalidUpstreamResponse("The domain has more than one DNSLink record.")
    return paths.pop() if paths else None


def _content_path(link: bytes) -> str | None:
    """The path that *link* spells, None if it leads to nothing that could be followed.

    A CID alone stands for its path, as in the first DNSLinks (boxo `tryParseDNSLink`)."""
    try:
        text = link.decode()
    except UnicodeDecodeError:
        return None
    if not text.startswith("/"):
        text = f"/ipfs/{text}"
    path = parse_content_path(text) if text.isprintable() else None
    return None if path is None else str(path)


class DnsLinks:
    """The links of domains, as *dns* has them."""

    def __init__(self, dns: Dns) -> None:
        self._dns = dns

    async def lookup(self, domain: str) -> DnsLink | None:
        """Where *domain* points, None if it does not say. Raises as `Dns.ask`, and
        InvalidUpstreamResponse when its records are ambiguous."""
        answer = await self._dns.ask(f"_dnslink.{domain}", "TXT")
        if answer is None:
            return None
        path = read_dnslink(b"".join(record.strings) for record in answer)
        # The chain's least: an alias that is about to change takes the answer along.
        ttl = timedelta(seconds=answer.chaining_result.minimum_ttl)
        return None if path is None else DnsLink(path, ttl)
