"""How DNS is asked with dnspython: nameservers in turn, datagrams, TCP, deadlines and faults.

A datagram that does not answer the question is passed over, as anybody can send one. An answer
that does not fit into a datagram is asked for again over TCP (RFC 7766), bounded, because the
owner of a domain decides how long it is. Only `dns.py` imports this module, and late."""

import asyncio
from functools import partial
from typing import Any, Final

import dns.asyncbackend
import dns.asyncquery
import dns.asyncresolver
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.nameserver
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA  # the three kinds, or their first answer would import them
import dns.resolver

from content_gateway.codecs.dns_message import DnsQuestion, DnsReply, forwarded
from content_gateway.errors import (
    GatewayError,
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.files.descriptors import own_lack
from content_gateway.net.dns import CANNOT_ASK, Dns

# What fits into one unfragmented datagram (DNS flag day 2020); longer answers come over TCP.
UDP_BYTES: Final = 1232
# dnspython takes some 35 us for each record (measured): what TCP can carry of the smallest would
# hold up a thread for a fifth of a second.
MAX_RECORDS: Final = 1_000
_ANSWERS: Final = (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
MAX_NAMESERVERS: Final = 3  # of the system's, as the C library does (resolv.conf(5))


class DnsClient:
    """Asks as *chosen* says."""

    def __init__(self, chosen: Dns) -> None:
        self._chosen = chosen
        self._servers = [self._nameserver(address) for address in chosen.nameservers]
        self._backend = dns.asyncbackend.get_backend("asyncio")

    async def ask(self, host: str, kind: str) -> dns.resolver.Answer | None:
        """As `Dns.ask`."""
        try:
            name = dns.name.Name([*host.encode("ascii").split(b"."), b""])
        except (dns.exception.DNSException, UnicodeEncodeError):
            return None  # no zone can hold such a name
        seconds = self._chosen.seconds
        servers = self._servers or await asyncio.to_thread(self._read_system)
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = list(servers)
        resolver.lifetime = seconds
        # Datagrams get lost: even a single server is asked twice.
        resolver.timeout = seconds / (len(servers) + 1)
        resolver.use_edns(0, payload=UDP_BYTES)
        try:
            async with asyncio.timeout(seconds):
                return await resolver.resolve(name, kind, search=False, backend=self._backend)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None
        except (dns.exception.Timeout, TimeoutError) as late:
            raise UpstreamTimeout(f"DNS gave no answer within {seconds:g} s.") from late
        except dns.resolver.NoNameservers as failed:
            raise _fault([error for _, _, _, error, _ in failed.kwargs["errors"]]) from failed
        except dns.exception.DNSException as wrong:
            raise InvalidUpstreamResponse("The answer of DNS cannot be right.") from wrong

    async def forward(self, question: DnsQuestion) -> DnsReply:
        """As `Dns.forward`: one nameserver after the other, until one can tell.

        The question is made again: its id must be one that nobody can guess, and what a client's
        EDNS options say of the client goes nowhere."""
        seconds = self._chosen.seconds
        servers = self._servers or await asyncio.to_thread(self._read_system)
        asked = dns.message.make_query(
            dns.name.Name([*question.name, b""]),
            dns.rdatatype.RdataType(question.kind),
            use_edns=0,
            want_dnssec=question.wants_dnssec,
            payload=UDP_BYTES,
        )
        if question.checking_disabled:
            asked.flags |= dns.flags.CD
        errors = list[Any]()
        try:
            async with asyncio.timeout(seconds):
                for server in [*servers, *servers]:  # datagrams get lost
                    try:
                        answer = await self._ask_one(server, asked, seconds / (len(servers) + 1))
                    except (OSError, EOFError, dns.exception.DNSException) as failed:
                        errors.append(failed)
                        continue
                    if answer.rcode() in _ANSWERS:
                        return forwarded(question, answer)
                    errors.append(dns.rcode.to_text(answer.rcode()))
        except TimeoutError as late:
            raise UpstreamTimeout(f"DNS gave no answer within {seconds:g} s.") from late
        if errors and all(isinstance(error, dns.exception.Timeout) for error in errors):
            raise UpstreamTimeout(f"DNS gave no answer within {seconds:g} s.")
        raise _fault(errors)

    async def _ask_one(
        self, server: "_Nameserver", asked: dns.message.QueryMessage, seconds: float
    ) -> dns.message.Message:
        """The answer of *server*, over TCP where it does not fit into a datagram."""
        try:
            return await server.async_query(asked, seconds, None, 0, False, self._backend)
        except dns.message.Truncated:
            return await server.async_query(asked, seconds, None, 0, True, self._backend)

    def _read_system(self) -> "list[_Nameserver]":
        """The system's nameservers, read again each time: machines change networks."""
        try:
            found = dns.resolver.Resolver(self._chosen.system).nameservers[:MAX_NAMESERVERS]
            return [self._nameserver(str(address)) for address in found]
        except (dns.resolver.NoResolverConfiguration, ValueError, OSError) as missing:
            if own_lack(missing):
                raise Overloaded(CANNOT_ASK) from missing
            raise UpstreamUnavailable("This machine has no DNS resolver configured.") from missing

    def _nameserver(self, address: str) -> "_Nameserver":
        return _Nameserver(address, self._chosen.port, over_tcp=self._chosen.over_tcp)


class _TooMany(dns.exception.FormError):
    """The answer has more than MAX_RECORDS."""


class _Nameserver(dns.nameserver.Do53Nameserver):
    """A DNS server whose answers over TCP are bounded, and read without stopping the loop."""

    def __init__(self, address: str, port: int, *, over_tcp: bool) -> None:
        super().__init__(address, port)
        self._over_tcp = over_tcp

    async def async_query(  # noqa: PLR0917 - dnspython's signature
        self,
        request: dns.message.QueryMessage,
        timeout: float,  # noqa: ASYNC109
        source: str | None,
        source_port: int,
        max_size: bool,
        backend: Any,
        *_: Any,
    ) -> dns.message.Message:
        """The answer to *request*; raises as dnspython expects it."""
        if not max_size:
            return await dns.asyncquery.udp(
                request,
                self.address,
                timeout=timeout,
                port=self.port,
                raise_on_truncation=self._over_tcp,
                backend=backend,
                ignore_errors=True,
                ignore_unexpected=True,
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


def _fault(errors: list[Any]) -> GatewayError:
    """Whose fault it is that no nameserver gave an answer, by what became of each question."""
    lacks = [lack for error in errors if isinstance(error, OSError) and (lack := own_lack(error))]
    if lacks:
        return Overloaded(CANNOT_ASK)
    refusals = [error for error in errors if isinstance(error, str)]
    if refusals:
        return UpstreamUnavailable(f"DNS could not find out: it says {refusals[-1]}.")
    # The last word counts: before it there may be a datagram that was truncated, or was lost.
    if isinstance(errors[-1], dns.exception.DNSException):
        return InvalidUpstreamResponse("The answer of DNS cannot be right.")
    return UpstreamUnavailable("No DNS resolver can be reached.")
