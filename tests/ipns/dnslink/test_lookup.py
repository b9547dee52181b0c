"""Looking up a domain's link: the question, the answer, and whom it is asked."""

from datetime import timedelta
from pathlib import Path

import pytest

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.ipns.sources.dnslink import DnsLink, DnsLinks
from content_gateway.net.dns import Dns
from content_gateway.net.dns_client import MAX_RECORDS
from tests.fakes.dns_resolver import DnsResolver, Mood, running_dns
from tests.ipns.dnslink.links import IPFS, KEY, LINK, NAME


async def test_a_lookup_asks_once_for_the_domains_record(dns: DnsResolver, links: DnsLinks) -> None:
    """One question, for `_dnslink.` and the domain; the TTL is the record's."""
    assert await links.lookup("example.org") == LINK
    assert dns.heard == [("udp", NAME)]


async def test_the_strings_of_a_record_are_one_text(dns: DnsResolver, links: DnsLinks) -> None:
    """DNS cuts text into strings of at most 255 bytes, or wherever the owner cut it."""
    dns.txt(NAME, [b"dns", b"link=/ip", b"", IPFS[3:].encode()])
    assert await links.lookup("example.org") == LINK
    long = f"{IPFS}/{'a' * 300}"
    dns.txt(NAME, f"dnslink={long}")
    assert await links.lookup("example.org") == DnsLink(long, LINK.ttl)


async def test_absence_is_none(dns: DnsResolver, links: DnsLinks) -> None:
    """No such name, no TXT record and no DNSLink among them: the domain does not say."""
    assert await links.lookup("example.net") is None
    dns.txt("_dnslink.example.net")
    assert await links.lookup("example.net") is None
    dns.txt("_dnslink.example.net", "v=spf1 -all", "dnslink=/swarm/abc")
    assert await links.lookup("example.net") is None
    dns.mood = "NXDOMAIN"
    assert await links.lookup("example.org") is None


async def test_a_domain_with_two_links_is_garbage(dns: DnsResolver, links: DnsLinks) -> None:
    """The same through DNS as without it."""
    dns.txt(NAME, f"dnslink={IPFS}", f"dnslink={KEY}")
    with pytest.raises(InvalidUpstreamResponse, match="more than one DNSLink"):
        await links.lookup("example.org")


@pytest.mark.parametrize(
    "domain",
    [
        "",
        "a..b",
        ".example.org",
        "example.org.",
        "a" * 64 + ".org",
        ".".join(["a" * 50] * 5),
        "bücher.example",
    ],
)
async def test_a_name_dns_cannot_hold_is_not_asked_for(
    dns: DnsResolver, links: DnsLinks, domain: str
) -> None:
    """With `_dnslink.` before it, a long domain is too long: then it has no such record."""
    assert await links.lookup(domain) is None
    assert dns.heard == []


async def test_the_longest_name_is_asked_for(dns: DnsResolver, links: DnsLinks) -> None:
    """253 characters are the most that DNS has."""
    domain = ".".join(["a" * 60] * 3 + ["a" * 61])
    assert len("_dnslink." + domain) == 253
    dns.txt("_dnslink." + domain, f"dnslink={KEY}")
    assert await links.lookup(domain) == DnsLink(KEY, LINK.ttl)
    assert await links.lookup(domain + "a") is None
    assert len(dns.heard) == 1


async def test_aliases_are_followed_and_the_least_ttl_holds(
    dns: DnsResolver, links: DnsLinks
) -> None:
    """A link may live elsewhere; it is true for as long as every step to it is."""
    dns.alias("_dnslink.a.example", "_dnslink.b.example", ttl=60)
    dns.alias("_dnslink.b.example", NAME, ttl=90)
    assert await links.lookup("a.example") == DnsLink(IPFS, timedelta(minutes=1))
    dns.txt(NAME, f"dnslink={IPFS}", ttl=7)
    assert await links.lookup("a.example") == DnsLink(IPFS, timedelta(seconds=7))
    dns.alias("_dnslink.c.example", "nowhere.example")
    assert await links.lookup("c.example") is None


async def test_an_alias_of_itself_is_garbage(dns: DnsResolver, links: DnsLinks) -> None:
    """A chain without an end is the owner's mistake, not an absence."""
    dns.alias("_dnslink.a.example", "_dnslink.b.example")
    dns.alias("_dnslink.b.example", "_dnslink.a.example")
    with pytest.raises(InvalidUpstreamResponse):
        await links.lookup("a.example")


@pytest.mark.parametrize(("ttl", "read"), [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, 0)])
async def test_a_ttl_is_unsigned_and_31_bits_long(
    dns: DnsResolver, links: DnsLinks, ttl: int, read: int
) -> None:
    """RFC 2181, section 8: with the highest bit set it is nothing."""

    def write(wire: bytes) -> bytes:
        return wire.replace((300).to_bytes(4, "big"), ttl.to_bytes(4, "big"))

    dns.mood, dns.tamper = "tcp only", write
    assert await links.lookup("example.org") == DnsLink(IPFS, timedelta(seconds=read))


async def test_a_truncated_answer_is_asked_for_again_by_tcp(
    dns: DnsResolver, links: DnsLinks
) -> None:
    """What a datagram cannot hold comes whole over TCP."""
    spf = ["v=spf1 " + "a" * 240 + str(number) for number in range(20)]
    dns.txt(NAME, f"dnslink={IPFS}", *spf)
    assert await links.lookup("example.org") == LINK
    assert dns.heard == [("udp", NAME), ("tcp", NAME)]


async def test_a_long_answer_is_read_whole(dns: DnsResolver, links: DnsLinks) -> None:
    """All that TCP carries: some domains have their other records under the same name."""
    dns.txt(NAME, *(f"{number:0200}" for number in range(290)), f"dnslink={IPFS}")
    assert await links.lookup("example.org") == LINK


async def test_an_answer_of_too_many_records_is_not_read(dns: DnsResolver, links: DnsLinks) -> None:
    """Parsing is bounded by the number of records."""
    dns.txt(NAME, f"dnslink={IPFS}", *(f"{number}" for number in range(MAX_RECORDS - 2)))
    assert await links.lookup("example.org") == LINK  # with the one of EDNS a thousand
    dns.txt(NAME, f"dnslink={IPFS}", *(f"{number}" for number in range(MAX_RECORDS)))
    with pytest.raises(InvalidUpstreamResponse):
        await links.lookup("example.org")


@pytest.mark.parametrize("mood", ["silent", "SERVFAIL", "garbage", "truncated"])
async def test_another_nameserver_is_asked(dns: DnsResolver, mood: Mood) -> None:
    """A nameserver that fails delays the answer and does not prevent it."""
    async with running_dns("127.0.0.2", dns.port) as ill:
        ill.mood = mood
        links = DnsLinks(Dns(["127.0.0.2", "127.0.0.1"], seconds=6, port=dns.port))
        assert await links.lookup("example.org") == LINK
        assert ill.heard
        assert dns.heard == [("udp", NAME)]


async def test_the_systems_nameserver_is_asked_without_its_search_list(
    dns: DnsResolver, tmp_path: Path
) -> None:
    """A domain is absolute, whatever domain this machine is in; and the file is read again."""
    system = tmp_path / "resolv.conf"
    system.write_text("search corp.example\noptions ndots:9 timeout:30\nnameserver 127.0.0.1\n")
    links = DnsLinks(Dns(seconds=5, port=dns.port, system=str(system)))
    assert await links.lookup("example.org") == LINK
    assert await links.lookup("intranet") is None
    assert dns.heard == [("udp", NAME), ("udp", "_dnslink.intranet")]
    system.write_text("nameserver 127.0.0.2\n")
    async with running_dns("127.0.0.2", dns.port) as elsewhere:
        assert await links.lookup("example.org") is None
        assert elsewhere.heard == [("udp", NAME)]


@pytest.mark.parametrize("text", [None, "", "search example\n", "nameserver localhost\n"])
async def test_a_system_without_nameserver_is_unavailable(tmp_path: Path, text: str | None) -> None:
    """A machine that has no DNS cannot say that a domain has no link."""
    system = tmp_path / "resolv.conf"
    if text is not None:
        system.write_text(text)
    with pytest.raises(UpstreamUnavailable, match="no DNS resolver"):
        await DnsLinks(Dns(seconds=5, system=str(system))).lookup("example.org")


def test_a_nameserver_is_an_address() -> None:
    """Names and URLs would need a resolver, or another protocol, to be reached."""
    for text in ("localhost", "https://dns.example/dns-query", "127.0.0.1:53", ""):
        with pytest.raises(ValueError, match=r".*"):
            DnsLinks(Dns([text], seconds=5))
