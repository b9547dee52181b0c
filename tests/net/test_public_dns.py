"""Host names that strangers chose: asked of DNS alone, in bounded time and bytes."""

import errno
import socket
from collections.abc import AsyncIterator

import pytest

from content_gateway.net.dns import Dns
from content_gateway.net.public_dns import MAX_ADDRESSES, PublicDns
from tests.fakes.dns import Nameserver, running_nameserver
from tests.limits import without_descriptors


@pytest.fixture
async def nameserver() -> AsyncIterator[Nameserver]:
    async with running_nameserver() as nameserver:
        yield nameserver


@pytest.fixture
def dns(nameserver: Nameserver) -> PublicDns:
    host, port = nameserver.address
    return PublicDns(Dns([host], port=port, seconds=0.4, over_tcp=False))


async def addresses(dns: PublicDns, name: str = "gateway.example") -> list[str]:
    return [found["host"] for found in await dns.resolve(name, 443)]


async def test_both_families_are_asked_at_once(dns: PublicDns, nameserver: Nameserver) -> None:
    """A lookup is one question for each family, of the absolute name, and IPv6 comes first."""
    nameserver.records["gateway.example.", "A"] = ["gateway.example. 60 A 192.0.2.1"]
    nameserver.records["gateway.example.", "AAAA"] = ["gateway.example. 60 AAAA 2001:db8::1"]
    assert await addresses(dns) == ["2001:db8::1", "192.0.2.1"]
    asked = [("gateway.example.", "A"), ("gateway.example.", "AAAA")]
    assert sorted(nameserver.heard) == asked
    found = await dns.resolve("gateway.example", 443)
    assert [one["family"] for one in found] == [socket.AF_INET6, socket.AF_INET]
    assert {one["port"] for one in found} == {443}


async def test_an_alias_is_followed(dns: PublicDns, nameserver: Nameserver) -> None:
    """The answer to a CNAME counts as the answer of the name itself; there need be no IPv6."""
    nameserver.records["gateway.example.", "A"] = [
        "gateway.example. 60 CNAME host.example.",
        "host.example. 60 A 192.0.2.7",
    ]
    assert await addresses(dns) == ["192.0.2.7"]


@pytest.mark.parametrize("mood", ["silent", "servfail", "garbage", "another"])
async def test_a_failing_nameserver_is_no_address(
    dns: PublicDns, nameserver: Nameserver, mood: str
) -> None:
    """Silence, refusals, noise and answers to other questions all end soon, as an OSError."""
    nameserver.records["gateway.example.", "A"] = ["gateway.example. 60 A 192.0.2.1"]
    nameserver.mood = mood
    with pytest.raises(OSError, match="DNS"):
        await addresses(dns)


async def test_without_a_descriptor_nothing_is_said_of_the_host(
    dns: PublicDns, nameserver: Nameserver
) -> None:
    """That we cannot ask is no fault of the name: the error says that it is ours."""
    nameserver.records["gateway.example.", "A"] = ["gateway.example. 60 A 192.0.2.1"]
    with without_descriptors(), pytest.raises(OSError, match="Too many open files") as failed:
        await addresses(dns)
    assert failed.value.errno == errno.EMFILE
    assert await addresses(dns) == ["192.0.2.1"]


async def test_a_name_that_is_not_there_has_no_address(
    dns: PublicDns, nameserver: Nameserver
) -> None:
    """NXDOMAIN, and a name without addresses."""
    nameserver.records["empty.example.", "TXT"] = []
    for name in ("nobody.example", "empty.example"):
        with pytest.raises(OSError, match="no address"):
            await addresses(dns, name)


async def test_the_hosts_file_is_not_read(dns: PublicDns, nameserver: Nameserver) -> None:
    """`localhost` is a name like any other, and DNS does not know it."""
    with pytest.raises(OSError, match="no address"):
        await addresses(dns, "localhost")
    assert {name for name, _ in nameserver.heard} == {"localhost."}


async def test_a_long_list_is_cut(dns: PublicDns, nameserver: Nameserver) -> None:
    """Of many addresses a few are tried, of both families."""
    many = " ".join(f"192.0.2.{last}" for last in range(1, 40))
    nameserver.records["gateway.example.", "A"] = [f"gateway.example. 60 A {many}"]
    nameserver.records["gateway.example.", "AAAA"] = [
        "gateway.example. 60 AAAA 2001:db8::1 2001:db8::2 2001:db8::3"
    ]
    found = await addresses(dns)
    assert len(found) == MAX_ADDRESSES
    assert sum(":" in address for address in found) == 2


async def test_a_cut_answer_is_not_fetched_whole(dns: PublicDns, nameserver: Nameserver) -> None:
    """What fits in a datagram is enough: nobody is asked again over TCP."""
    nameserver.records["gateway.example.", "A"] = ["gateway.example. 60 A 192.0.2.1"]
    nameserver.mood = "truncated"
    assert await addresses(dns) == ["192.0.2.1"]
    assert len(nameserver.heard) == 2
