"""What DNS is told of a name: its records as TXT and addresses, or why there are none.

Knows which names are ours, what `_dnslink` means (dnslink.dev), and that an outage is SERVFAIL and
never NXDOMAIN. Messages are left to codecs/dns_message.py, HTTP to dns_query.py; imported late, as
dnspython is."""

import asyncio
from collections.abc import Collection
from typing import Final, Protocol

from content_gateway.codecs import dns_message
from content_gateway.codecs.dns_message import DnsQuestion, DnsReply, Name, Record
from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import (
    Blocked,
    InvalidDomain,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.http.redaction import without_addresses
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Failed, FreshRecords, IpfsContent, IpnsContent
from content_gateway.names.directory import Directory

# Of what is stale, or not cached here: the seconds that RFC 8767 (section 4) recommends.
SHORT_TTL: Final = 30
# What is ours by its ending, and is none that could be registered, is not there for so long.
IMPOSSIBLE_TTL: Final = 300
_DNSLINK: Final = b"_dnslink"
# Where a resolver names its encrypted forms (RFC 9462 section 6.4). We name none, and those of the
# one that questions are forwarded to do not know our names: it is never asked.
_RESOLVER: Final = (b"resolver", b"arpa")
# Questions that wait for another resolver at once, each with a socket of its own; as many may wait.
_FORWARDED: Final = 256
# Extended errors (RFC 8914, section 4).
_BLOCKED: Final = 15
_PROHIBITED: Final = 18
_NO_REACHABLE_AUTHORITY: Final = 22
_INVALID_DATA: Final = 24


class Forwarder(Protocol):
    """A DNS resolver of the operator's, for names that are not ours."""

    async def forward(self, question: DnsQuestion) -> DnsReply:
        """Its answer; raises UpstreamError, and Overloaded where nothing can be asked from here."""


class DomainDenylist(Protocol):
    """The domains that the operator does not serve."""

    def check_name(self, name: DomainName) -> None:
        """Raises Blocked if the domain is listed."""


class DnsAnswers:
    """Answers questions about the names that *directory* resolves below *endings*, or has locally.

    *addresses* (IPv4 and IPv6) are those of the operator's gateway, the A and AAAA records of every
    name with content. Any other name goes to *forwarder*, which *at_once* questions may wait for,
    shared fairly by requestor; without one it is refused."""

    def __init__(
        self,
        directory: Directory,
        denylist: DomainDenylist,
        *,
        endings: Collection[str],
        addresses: Collection[str] = (),
        forwarder: Forwarder | None = None,
        at_once: int = _FORWARDED,
    ) -> None:
        self._directory = directory
        self._denylist = denylist
        self._endings = frozenset(ending.encode() for ending in endings)
        self._addresses = [
            Record(dns_message.AAAA if ":" in text else dns_message.A, text) for text in addresses
        ]
        self._forwarder = forwarder
        self._forwarding = FairSemaphore(
            at_once, waiting=at_once, detail="Too many names are asked of DNS; ask again soon."
        )

    async def answer(self, question: DnsQuestion, requestor: str) -> DnsReply:
        """The reply; what has to be looked up for it is charged to *requestor*.

        Raises Overloaded and TooManyAtOnce, after which the same question may be answered."""
        if question.fault:
            return dns_message.refused(question, question.fault)
        is_link = question.name[:1] != () and question.name[0].lower() == _DNSLINK
        labels = question.name[1:] if is_link else question.name
        ending = b"" if not labels else labels[-1].lower()
        try:
            if ending in self._endings:
                return await self._below(question, labels, requestor, is_link=is_link)
            name = await _domain(labels)
            if name is not None and self._directory.lists(name):
                found = await self._directory.records(name, requestor=requestor)
                return self._known(question, labels[1:], found, is_link=is_link)
            return await self._foreign(question, name, requestor)
        except Blocked as blocked:
            return dns_message.refused(question, dns_message.REFUSED, _BLOCKED, blocked.detail)
        except UpstreamError as failed:
            return _outage(question, failed)

    async def _below(
        self, question: DnsQuestion, labels: Name, requestor: str, *, is_link: bool
    ) -> DnsReply:
        """The reply about the name *labels*, whose ending is ours: the zone that it is in."""
        zone = labels[-1:]
        if len(labels) == 1:  # the zone itself, of which nobody has records
            return dns_message.nothing(question, zone, IMPOSSIBLE_TTL, exists=True)
        name = await _domain(labels)
        if name is None:
            return dns_message.nothing(question, zone, IMPOSSIBLE_TTL, exists=False)
        found = await self._directory.records(name, requestor=requestor)
        return self._known(question, zone, found, is_link=is_link)

    def _known(
        self, question: DnsQuestion, apex: Name, found: FreshRecords, *, is_link: bool
    ) -> DnsReply:
        """The reply about a name of which this was *found*, in the zone *apex*."""
        ttl = SHORT_TTL if found.fresh_for is None else int(found.fresh_for.total_seconds())
        if found.records is None:
            return dns_message.nothing(question, apex, ttl, exists=False)
        content = found.records.content
        kinds = (
            {dns_message.TXT} if is_link else {dns_message.TXT, *(r.kind for r in self._addresses)}
        )
        if question.kind != dns_message.ANY:
            kinds &= {question.kind}
        if not kinds:
            return dns_message.nothing(question, apex, ttl, exists=True)
        if isinstance(content, Failed):
            return _outage(question, content.error())
        records = list[Record]()
        if isinstance(content, IpfsContent | IpnsContent):
            served = [_link(content), *self._addresses]
            records = [record for record in served if record.kind in kinds]
        if not records:
            return dns_message.nothing(question, apex, ttl, exists=True)
        return dns_message.answered(question, records, ttl)

    async def _foreign(
        self, question: DnsQuestion, name: DomainName | None, requestor: str
    ) -> DnsReply:
        """The reply about a name that is not ours.

        Raises as Forwarder.forward, Blocked, and TooManyAtOnce."""
        if tuple(map(bytes.lower, question.name[-2:])) == _RESOLVER:
            return dns_message.nothing(question, _RESOLVER, IMPOSSIBLE_TTL, exists=True)
        if self._forwarder is None:
            text = "Only names of name services are resolved here."
            return dns_message.refused(question, dns_message.REFUSED, _PROHIBITED, text)
        if name is not None:
            self._denylist.check_name(name)
        async with self._forwarding.request(requestor):
            return await self._forwarder.forward(question)


def _link(content: IpfsContent | IpnsContent) -> Record:
    """The DNSLink record of *content*. IPNS is left to whoever asks, who can verify it."""
    path = f"/ipfs/{content.cid}" if isinstance(content, IpfsContent) else f"/ipns/{content.name}"
    return Record(dns_message.TXT, b"dnslink=" + path.encode())


def _outage(question: DnsQuestion, error: UpstreamError) -> DnsReply:
    is_absent = isinstance(error, UpstreamTimeout | UpstreamUnavailable)
    why = _NO_REACHABLE_AUTHORITY if is_absent else _INVALID_DATA
    return dns_message.refused(question, dns_message.SERVFAIL, why, without_addresses(error.detail))


async def _domain(labels: Name) -> DomainName | None:
    """The domain that *labels* spell, None if no name service could hold it."""
    try:
        text = ".".join(map(_text, labels))
        # A name that is not plain loads a large library, once: off the event loop.
        return DomainName.parse_plain(text) or await asyncio.to_thread(DomainName.parse, text)
    except (InvalidDomain, UnicodeError):
        return None


def _text(label: bytes) -> str:
    """*label* as name services have it: DNS spells other scripts in ASCII (RFC 3492), a few clients
    in UTF-8. Raises UnicodeError, and for a dot in it, which separates nothing."""
    if label[:4].lower() == b"xn--":
        text = label[4:].decode("punycode")
        if text.isascii():
            raise UnicodeError("punycode of what needs none")
    else:
        text = label.decode()
    if "." in text:
        raise UnicodeError("a dot within a label")
    return text
