"""Every way of not finding out where a domain points: none of them is an absence."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from content_gateway.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ipns.sources.dnslink import DnsLink, DnsLinks
from content_gateway.net.dns import Dns
from tests.fakes.dns_resolver import FORGED, DnsResolver, Mood
from tests.ipns.dnslink.links import LINK, NAME
from tests.limits import without_descriptors


def impatient(dns: DnsResolver) -> DnsLinks:
    """For servers that do not answer."""
    return DnsLinks(Dns(["127.0.0.1"], seconds=0.5, port=dns.port))


@pytest.mark.parametrize("mood", ["silent", "wrong id", "garbage", "other question"])
async def test_whoever_is_not_answered_hears_of_a_timeout(dns: DnsResolver, mood: Mood) -> None:
    """Anybody can send a datagram: what does not answer the question is not even an error."""
    dns.mood = mood
    with pytest.raises(UpstreamTimeout):
        await impatient(dns).lookup("example.org")


async def test_a_lost_datagram_is_sent_again(dns: DnsResolver) -> None:
    """A datagram that UDP has lost is no absence."""
    dns.lost = 1
    assert (
        await DnsLinks(Dns(["127.0.0.1"], seconds=6, port=dns.port)).lookup("example.org") == LINK
    )


@pytest.mark.parametrize(
    ("mood", "error", "why"),
    [
        ("SERVFAIL", UpstreamUnavailable, "SERVFAIL"),
        ("REFUSED", UpstreamUnavailable, "REFUSED"),
        ("hang up", UpstreamUnavailable, None),  # it may have been restarted
        ("truncated", InvalidUpstreamResponse, None),  # over TCP, with nothing in it
    ],
)
async def test_a_resolver_that_could_not_find_out_has_not_said_no(
    dns: DnsResolver, links: DnsLinks, mood: Mood, error: type[UpstreamError], why: str | None
) -> None:
    """Neither an error of the resolver nor an answer that was cut is an absence."""
    dns.mood = mood
    with pytest.raises(error, match=why):
        await links.lookup("example.org")


async def test_without_a_descriptor_nobody_is_blamed(dns: DnsResolver, links: DnsLinks) -> None:
    """That nothing could be asked is our own overload; no resolver is out of reach for it."""
    dns.mood = "well"
    with without_descriptors(), pytest.raises(Overloaded):
        await links.lookup("example.org")
    assert await links.lookup("example.org") == LINK


async def test_the_system_s_resolvers_cannot_be_read_without_a_descriptor(tmp_path: Path) -> None:
    """Overloaded, and not 'no resolver is configured'."""
    system = tmp_path / "resolv.conf"
    system.write_text("nameserver 127.0.0.1\n")
    links = DnsLinks(Dns([], seconds=5, system=str(system)))
    await asyncio.to_thread(int)  # the pool's thread is there
    with without_descriptors(), pytest.raises(Overloaded):
        await links.lookup("example.org")


@pytest.mark.parametrize("mood", ["spoofed", "wrong source"])
async def test_a_forged_answer_is_not_believed(
    dns: DnsResolver, links: DnsLinks, mood: Mood
) -> None:
    """With another id, or from elsewhere, it may well come first: the true one is waited for."""
    dns.mood = mood
    link = await links.lookup("example.org")
    assert link == LINK
    assert FORGED not in str(link)


def cut(wire: bytes) -> bytes:
    return wire[:-3]


def other_id(wire: bytes) -> bytes:
    return bytes([wire[0] ^ 1]) + wire[1:]


def trailing(wire: bytes) -> bytes:
    return wire + b"\0"


def nothing(wire: bytes) -> bytes:
    return b""


def a_question(wire: bytes) -> bytes:
    return wire[:2] + bytes([wire[2] & 0x7F]) + wire[3:]


@pytest.mark.parametrize("tamper", [cut, other_id, trailing, nothing, a_question])
async def test_what_is_no_answer_over_tcp_is_garbage(
    dns: DnsResolver, links: DnsLinks, tamper: Callable[[bytes], bytes]
) -> None:
    """A connection is made with one server: what it says there is its own."""
    dns.mood, dns.tamper = "tcp only", tamper
    with pytest.raises(InvalidUpstreamResponse):
        await links.lookup("example.org")


async def test_a_silent_connection_meets_the_deadline(dns: DnsResolver) -> None:
    """The seconds are for everything: the datagram, the connection and the answer."""
    stalled = impatient(dns)

    def go_silent(wire: bytes) -> bytes:
        dns.mood = "silent"
        return wire

    dns.mood, dns.tamper = "tcp only", go_silent
    with pytest.raises(UpstreamTimeout):
        await stalled.lookup("example.org")


async def test_mutated_answers_are_links_none_or_upstreams_fault(
    dns: DnsResolver, links: DnsLinks
) -> None:
    """Whatever bytes a resolver answers with, nothing else than the promised comes of them."""
    dns.alias("_dnslink.a.example", NAME)
    chance = random.Random(20261121)

    def mutate(wire: bytes) -> bytes:
        changed = bytearray(wire)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(2, len(wire))] = chance.choice((0, 1, 0xC0, 0xFF, 7, 63))
        return bytes(changed[: chance.choice((len(wire), len(wire), chance.randrange(len(wire))))])

    dns.mood, dns.tamper = "tcp only", mutate
    outcomes: set[type] = set()
    for _ in range(1_000):
        try:
            link = await links.lookup("a.example")
        except UpstreamError as failed:
            outcomes.add(type(failed))
        else:
            assert link is None or link.path.startswith(("/ipfs/", "/ipns/"))
            outcomes.add(type(link))
    assert outcomes >= {DnsLink, InvalidUpstreamResponse}
