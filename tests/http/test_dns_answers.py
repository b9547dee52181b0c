"""The TTL of DNS answers, on a virtual clock; and names that are forwarded to another resolver."""

import asyncio
from collections.abc import AsyncIterator

import dns.message
import dns.rrset
import pytest

from content_gateway.codecs.dns_message import DnsReply, parse_question
from content_gateway.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    ResolverFailed,
    UpstreamTimeout,
)
from content_gateway.http.address_limits import MAX_ADDRESSES, AddressLimits
from content_gateway.http.operations.dns_answers import DnsAnswers
from content_gateway.http.problems import HttpRefusal
from content_gateway.model.records import Failed, Records
from content_gateway.names.directory import Directory
from content_gateway.net.dns import Dns
from tests.clock import Clock
from tests.dns_questions import wire_of
from tests.fakes.dns import Nameserver, running_nameserver
from tests.names.services import BOB, Blocks, Service, directory_of
from tests.samples import CONTENT, WALLET
from tests.waiting import until

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service() -> Service:
    return Service(site=BOB)


@pytest.fixture
async def directory(service: Service, clock: Clock) -> AsyncIterator[Directory]:
    directory = directory_of(service, clock=clock)
    yield directory
    await directory.close()


@pytest.fixture
async def nameserver() -> AsyncIterator[Nameserver]:
    async with running_nameserver() as nameserver:
        yield nameserver


async def reply_to(
    answers: DnsAnswers, name: str, kind: str = "TXT", requestor: str = "somebody"
) -> DnsReply:
    return await answers.answer(parse_question(wire_of(name, kind)), requestor)


async def test_the_ttl_is_the_time_until_the_next_look_up(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """And half a minute, as RFC 8767 says, of an answer that serves while it is stale."""
    answers = DnsAnswers(directory, Blocks(), endings=["eth"])
    for passed, left in ((0, 300), (100.5, 199), (199.4, 0)):
        clock.pass_(passed)
        reply = await reply_to(answers, "_dnslink.site.eth")
        assert reply.ttl == left
        assert [one.ttl for one in reply.message.answer] == [left]
    service.down = True
    clock.pass_(500)
    assert (await reply_to(answers, "site.eth")).ttl == 30


async def test_absence_has_the_ttl_of_absence(directory: Directory, clock: Clock) -> None:
    """In the SOA and its minimum (RFC 2308)."""
    answers = DnsAnswers(directory, Blocks(), endings=["eth"])
    await reply_to(answers, "nobody.eth")
    clock.pass_(12)
    reply = await reply_to(answers, "nobody.eth")
    (soa,) = reply.message.authority
    assert (reply.code, reply.ttl, soa.ttl, soa[0].minimum) == (NXDOMAIN, 18, 18, 18)
    assert soa.name.to_text() == "eth."


@pytest.mark.parametrize("kind", [UpstreamTimeout, InvalidUpstreamResponse, ResolverFailed])
async def test_content_that_could_not_be_read_is_an_outage(
    directory: Directory, service: Service, kind: type[UpstreamTimeout]
) -> None:
    """It may be set: neither NODATA nor NXDOMAIN; of what does not depend on it we know."""
    service.names["half.eth"] = Records(WALLET, Failed(kind, "It said http://10.0.0.1/ is away."))
    answers = DnsAnswers(directory, Blocks(), endings=["eth"])
    reply = await reply_to(answers, "_dnslink.half.eth")
    assert (reply.code, reply.ttl) == (SERVFAIL, None)
    assert "10.0.0.1" not in str(reply.json)
    assert (await reply_to(answers, "half.eth", "A")).code == NOERROR
    with_gateway = DnsAnswers(directory, Blocks(), endings=["eth"], addresses=["192.0.2.7"])
    assert (await reply_to(with_gateway, "half.eth", "A")).code == SERVFAIL


async def test_only_the_endings_are_asked_of_name_services(
    directory: Directory, service: Service
) -> None:
    """A name of DNS may be in ENS as well; as a name of DNS it is not ours to answer for."""
    service.names["example.com"] = Records(WALLET, CONTENT)
    answers = DnsAnswers(directory, Blocks(), endings=["eth"])
    assert (await reply_to(answers, "example.com")).code == REFUSED
    assert service.asked == []


def forwarding(directory: Directory, nameserver: Nameserver, *blocked: str) -> DnsAnswers:
    """Answers that hand on to *nameserver* what is not below .eth."""
    blocks = Blocks()
    blocks.names.update(blocked)
    dns = Dns([nameserver.address[0]], seconds=3, port=nameserver.address[1])
    return DnsAnswers(directory, blocks, endings=["eth"], forwarder=dns)


async def test_other_names_are_forwarded(directory: Directory, nameserver: Nameserver) -> None:
    """Any type of record, with the TTL that it has there; ours are not told to anybody."""
    nameserver.records["example.com.", "NS"] = ["example.com. 77 NS ns.example.com."]
    nameserver.records["_dnslink.example.com.", "TXT"] = ["_dnslink.example.com. 60 TXT dnslink=x"]
    answers = forwarding(directory, nameserver)
    reply = await reply_to(answers, "example.com", "NS")
    assert (reply.code, reply.ttl) == (NOERROR, 77)
    assert reply.json["Answer"][0]["data"] == "ns.example.com."
    read = dns.message.from_wire(reply.wire)
    assert (read.id, read.question[0].name.to_text()) == (0, "example.com.")
    assert (await reply_to(answers, "_dnslink.example.com")).ttl == 60
    await reply_to(answers, "site.eth")
    assert [name for name, _ in nameserver.heard] == ["example.com.", "_dnslink.example.com."]


async def test_an_alias_of_nothing_lasts_as_long_as_what_is_not_there(
    directory: Directory, nameserver: Nameserver
) -> None:
    """CNAME without what was asked for: the SOA's minimum counts too, as it is the smallest."""
    nameserver.records["www.example.com.", "A"] = ["www.example.com. 3600 CNAME x.example.com."]
    soa = "ns.example.com. who.example.com. 1 3600 600 86400 40"
    nameserver.authority = [dns.rrset.from_text("example.com.", 900, "IN", "SOA", soa)]
    reply = await reply_to(forwarding(directory, nameserver), "www.example.com", "A")
    assert (reply.code, reply.ttl, len(reply.message.authority)) == (NOERROR, 40, 1)


async def test_encrypted_resolvers_of_others_are_not_named(
    directory: Directory, nameserver: Nameserver
) -> None:
    """They do not know our names (RFC 9462, section 6.4): NODATA, and nobody is asked."""
    for answers in (
        forwarding(directory, nameserver),
        DnsAnswers(directory, Blocks(), endings=["eth"]),
    ):
        reply = await reply_to(answers, "_dns.Resolver.arpa", "SVCB")
        assert (reply.code, len(reply.message.authority)) == (NOERROR, 1)
    assert nameserver.heard == []


@pytest.mark.parametrize("name", ["_dnslink.site.eth", "nobody.eth", "example.com"])
async def test_a_padded_question_has_a_padded_reply(directory: Directory, name: str) -> None:
    """To a multiple of 468 bytes (RFC 8467), whatever it says; no other reply is padded."""
    answers = DnsAnswers(directory, Blocks(), endings=["eth"])
    padded = dns.message.make_query(name, "TXT", use_edns=0, pad=128).to_wire()
    reply = await answers.answer(parse_question(padded), "somebody")
    assert len(reply.wire) == 468
    assert dns.message.from_wire(reply.wire).rcode() == reply.code
    assert len((await reply_to(answers, name)).wire) < 468


async def test_what_is_not_there_elsewhere_is_not_here(
    directory: Directory, nameserver: Nameserver
) -> None:
    """NXDOMAIN is handed on; without an SOA nobody said for how long, so that it is not kept."""
    reply = await reply_to(forwarding(directory, nameserver), "gone.example")
    assert (reply.code, reply.ttl) == (NXDOMAIN, None)


@pytest.mark.parametrize("mood", ["servfail", "silent", "garbage", "another"])
async def test_a_resolver_that_fails_is_an_outage(
    directory: Directory, nameserver: Nameserver, mood: str
) -> None:
    """Whatever it says, or does not: SERVFAIL, which nobody keeps."""
    nameserver.records["example.com.", "A"] = ["example.com. 77 A 192.0.2.1"]
    nameserver.mood = mood
    dns_server = Dns([nameserver.address[0]], seconds=0.5, port=nameserver.address[1])
    answers = DnsAnswers(directory, Blocks(), endings=["eth"], forwarder=dns_server)
    reply = await reply_to(answers, "example.com", "A")
    assert (reply.code, reply.ttl) == (SERVFAIL, None)


async def test_so_many_questions_wait_for_another_resolver(
    directory: Directory, nameserver: Nameserver
) -> None:
    """Each has a socket: who asks for more is refused, and leaves room for somebody else."""
    nameserver.mood = "silent"
    dns_server = Dns([nameserver.address[0]], seconds=3, port=nameserver.address[1])
    answers = DnsAnswers(directory, Blocks(), endings=["eth"], forwarder=dns_server, at_once=6)
    flood = [asyncio.create_task(reply_to(answers, f"x{n}.example")) for n in range(50)]
    await until(lambda: len(nameserver.heard) == 4)
    other = asyncio.create_task(reply_to(answers, "other.example", requestor="somebody else"))
    await until(lambda: ("other.example.", "TXT") in nameserver.heard)
    refused = [one for one in flood if one.done()]
    assert {type(one.exception()) for one in refused} == {Overloaded}
    assert len(refused) > 30
    for task in [*flood, other]:
        task.cancel()
    await asyncio.gather(*flood, other, return_exceptions=True)


async def test_a_blocked_name_is_not_forwarded(
    directory: Directory, nameserver: Nameserver
) -> None:
    """It is refused before anybody is asked."""
    reply = await reply_to(forwarding(directory, nameserver, "bad.example"), "_dnslink.bad.example")
    assert reply.code == REFUSED
    assert nameserver.heard == []


def test_the_limit_of_an_address_is_in_any_minute() -> None:
    """Each has its own; after a minute the first requests count no more."""
    clock = Clock()
    limits = AddressLimits(2, clock=clock)
    limits.take("192.0.2.1")
    limits.take("192.0.2.1")
    with pytest.raises(HttpRefusal) as refused:
        limits.take("192.0.2.1")
    assert dict(refused.value.more)[b"retry-after"] == b"61"
    limits.take("192.0.2.2")
    clock.pass_(62)
    limits.take("192.0.2.1")


def test_the_memory_for_addresses_is_bounded() -> None:
    """Those that were used last are remembered."""
    limits = AddressLimits(1, clock=Clock())
    limits.take("the last of the old")
    for number in range(MAX_ADDRESSES):
        limits.take(str(number))
    with pytest.raises(HttpRefusal):
        limits.take("the last of the old")
    for number in range(2 * MAX_ADDRESSES):
        limits.take(f"new {number}")
    assert len(limits) <= 2 * MAX_ADDRESSES
    limits.take("the last of the old")


def test_no_limit_is_no_limit() -> None:
    """As the setting 0 says."""
    limits = AddressLimits(0)
    for _ in range(1_000):
        limits.take("192.0.2.1")
