"""DNSLink: where a domain says, in a TXT record of `_dnslink.<domain>`, that it points.

Knows the records (dnslink.dev), which of a resolver's answers mean "none", and how much of an
answer is read. Following the path is left to `ipns/`; nothing here can be verified, so that an
answer is as true as the DNS resolver is."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

# 60 ms and 4 MB (dnspython 2.9, measured): little enough to be paid at the start, and too much
# for the event loop to be held up by the first lookup.
import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.message
import dns.name
import dns.nameserver
import dns.query
import dns.rdatatype
import dns.rdtypes.ANY.TXT
import dns.resolver

from content_gateway.errors import (
    GatewayError,
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.files.descriptors import own_lack
from content_gateway.model.content_path import parse_content_path

PREFIX: Final = b"dnslink="
# What fits into one unfragmented datagram (DNS flag day 2020); longer answers come over TCP.
UDP_BYTES: Final = 1232
# A domain's owner decides how many records there are, and dnspython takes some 35 us for each
# (measured): what TCP can carry of the smallest would hold up a thread for a fifth of a second.
MAX_RECORDS: Final = 1_000
MAX_NAMESERVERS: Final = 3  # of the system's, as the C library does (resolv.conf(5))
SYSTEM: Final = "/etc/resolv.conf"
_NO_FILES: Final = "DNS cannot be asked from here now."


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
    """Asks *nameservers* (IP addresses), or those of the *system*; *seconds* bounds one lookup.

    Raises ValueError for a nameserver that is not an address."""

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        *,
        seconds: float,
        port: int = 53,
        system: str = SYSTEM,
    ) -> None:
        self._servers = [_nameserver(address, port) for address in nameservers]
        self._port = port
        self._system = system
        self._seconds = seconds
        self._backend = dns.asyncbackend.get_backend("asyncio")

    async def lookup(self, domain: str) -> DnsLink | None:
        """Where *domain* points, None if it does not say.

        Raises Overloaded where nothing could be asked from here, UpstreamTimeout,
        UpstreamUnavailable when the resolver cannot be reached or could not find out,
        InvalidUpstreamResponse when its answer or the domain's records cannot be right."""
        name = _record_name(domain)
        if name is None:
            return None
        servers = self._servers or await asyncio.to_thread(self._read_system)
        answer = await self._ask(name, servers)
        if answer is None:
            return None
        path = read_dnslink(b"".join(record.strings) for record in answer)
        # The chain's least: an alias that is about to change takes the answer along.
        ttl = timedelta(seconds=answer.chaining_result.minimum_ttl)
        return None if path is None else DnsLink(path, ttl)

    def _read_system(self) -> "list[_Nameserver]":
        """The system's nameservers, read again each time: machines change networks."""
        try:
            found = dns.resolver.Resolver(self._system).nameservers[:MAX_NAMESERVERS]
            return [_nameserver(str(address), self._port) for address in found]
        except (dns.resolver.NoResolverConfiguration, ValueError, OSError) as missing:
            if own_lack(missing):
                raise Overloaded(_NO_FILES) from missing
            raise UpstreamUnavailable("This machine has no DNS resolver configured.") from missing

    async def _ask(
        self, name: dns.name.Name, servers: "list[_Nameserver]"
    ) -> dns.resolver.Answer | None:
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = list(servers)
        resolver.lifetime = self._seconds
        # Datagrams get lost: even a single server is asked twice.
        resolver.timeout = self._seconds / (len(servers) + 1)
        resolver.use_edns(0, payload=UDP_BYTES)
        try:
            async with asyncio.timeout(self._seconds):
                return await resolver.resolve(
                    name, dns.rdatatype.TXT, search=False, backend=self._backend
                )
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None
        except (dns.exception.Timeout, TimeoutError) as late:
            raise UpstreamTimeout(f"DNS gave no answer within {self._seconds:g} s.") from late
        except dns.resolver.NoNameservers as failed:
            raise _fault(failed) from failed
        except dns.exception.DNSException as wrong:
            raise InvalidUpstreamResponse("The answer of DNS cannot be right.") from wrong


class _TooMany(dns.exception.FormError):
    """The answer has more than MAX_RECORDS."""


class _Nameserver(dns.nameserver.Do53Nameserver):
    """A DNS server whose answers over TCP are bounded, and read without stopping the loop."""

    async def async_query(  # noqa: PLR0917 - dnspython's signature
        self,
        request: dns.message.QueryMessage,
        timeout: float,  # noqa: ASYNC109
        source: str | None,
        source_port: int,
        max_size: bool,
        backend: Any,
        one_rr_per_rrset: bool = False,
        ignore_trailing: bool = False,
    ) -> dns.message.Message:
        """The answer to *request*; raises as dnspython expects it."""
        if not max_size:  # by UDP: dnspython waits for the true answer whatever else comes
            return await super().async_query(
                request, timeout, source, source_port, max_size, backend
            )
        try:
            async with asyncio.timeout(timeout):
                wire = await self._ask_by_tcp(request.to_wire())
                # Truncated even here, it would pass for an answer without records.
                read = partial(dns.message.from_wire, wire, raise_on_truncation=True)
                answer = await asyncio.to_thread(read)
        except TimeoutError as late:
            raise dns.exception.Timeout from late
        if not request.is_response(answer):
            raise dns.query.BadResponse
        return answer

    async def _ask_by_tcp(self, question: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self.address, self.port)
        try:
            writer.write(len(question).to_bytes(2, "big") + question)
            await writer.drain()
            answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            # RFC 1035 section 4.1.1: how many records each of three sections has.
            if sum(int.from_bytes(answer[at : at + 2], "big") for at in (6, 8, 10)) > MAX_RECORDS:
                raise _TooMany
            return answer
        finally:
            writer.close()


def _nameserver(address: str, port: int) -> _Nameserver:
    return _Nameserver(str(ip_address(address)), port)


def _record_name(domain: str) -> dns.name.Name | None:
    """The absolute name of the domain's TXT records, None if DNS could not hold it."""
    try:
        return dns.name.Name([b"_dnslink", *domain.encode("ascii").split(b"."), b""])
    except (dns.exception.DNSException, UnicodeEncodeError):
        return None


def _fault(failed: dns.resolver.NoNameservers) -> GatewayError:
    """Whose fault it is that no nameserver gave an answer."""
    errors: list[Any] = [error for _, _, _, error, _ in failed.kwargs["errors"]]
    if any(isinstance(error, OSError) and own_lack(error) for error in errors):
        return Overloaded(_NO_FILES)
    refusals = [error for error in errors if isinstance(error, str)]
    if refusals:
        return UpstreamUnavailable(f"DNS could not find out: it says {refusals[-1]}.")
    # The last word counts: before it there may be a datagram that was truncated, or was lost.
    if isinstance(errors[-1], dns.exception.DNSException):
        return InvalidUpstreamResponse("The answer of DNS cannot be right.")
    return UpstreamUnavailable("No DNS resolver can be reached.")
