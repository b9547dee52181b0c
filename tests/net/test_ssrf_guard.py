"""The guard: no URL that a stranger chose leads to a machine that is not on the public internet.

Each form is asked through the whole client, and again through the connector alone, as if the rules
for URLs did not exist. What must not be reached is a listener on loopback that counts; the forms of
other private addresses would be stopped by tests/conftest.py, which counts as a failure here."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamUnavailable
from content_gateway.model.addresses import Address, is_public
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import AddressRefused, Guard
from tests.fakes.dns import Zone
from tests.world.peers import free_port


def words(text: str) -> list[str]:
    """The forms in *text*, one a word."""
    return text.split()


V4 = words(
    "127.0.0.1 127.1.2.3 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 "
    "169.254.169.254 100.64.0.1 100.100.100.200 192.0.0.8 192.0.0.192 192.0.2.1 192.88.99.1 "
    "198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255"
)
V6 = words(
    "::1 :: 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::FFFF:10.0.0.1 ::ffff:0.0.0.0 "
    "::ffff:169.254.169.254 ::ffff:100.64.0.1 ::ffff:224.0.0.1 ::127.0.0.1 ::a00:1 "
    "::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::8.8.8.8 "
    "64:ff9b:1::10.0.0.1 2002:7f00:1::1 2002:a9fe:a9fe::1 2001:0:7f00:1::1 2001:db8::1 "
    "fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 feff::1 ff02::1 ff0e::1 100::1 3fff::1 "
    "5f00::1 4000::1 ::2"
)
# What the C library, asked for such a name, takes for 127.0.0.1.
NUMBERS = words(
    "2130706433 0x7f000001 0x7f.1 0X7F.0.0.1 0x7f.0x0.0x0.0x1 017700000001 0177.0.0.1 127.1 "
    "127.0.1 127.0.0.1. 00127.0.0.1 127.000.000.001 127.0.0.0x1"
)
# What other parsers, or other parts of this one, might take for 127.0.0.1.
DISGUISES = [
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.0.0.1",
    "127.0.0.1%00.gateway.example",
    "%31%32%37.0.0.1",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1%25eth0]",
    "[127.0.0.1]",
    "[::1",
    "::1",
]
NAMES = words("localhost LOCALHOST localhost. ip6-localhost metadata metadata.google.internal")
LITERALS = [*V4, *(f"[{address}]" for address in V6)]
FORMS = [*LITERALS, *NUMBERS, *DISGUISES, *NAMES]


class Listener:
    """Counts who connects to `port` of 127.0.0.1, ::1 and whatever else leads there."""

    def __init__(self) -> None:
        self.port = free_port()
        self.connections = 0

    async def heard(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    """A listener on both loopback addresses."""
    listener = Listener()
    async with AsyncExitStack() as stack:
        for host in ("127.0.0.1", "::1"):
            server = await asyncio.start_server(listener.heard, host, listener.port)
            stack.callback(server.close)
        yield listener


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as listener:
        yield listener


async def refusal(guard: Guard, url: str) -> UpstreamError:
    """How the whole client refuses *url*; fails if anybody but the guard refused it."""
    async with HttpClient(guard) as outbound:
        with pytest.raises(UpstreamError) as failed:
            await outbound.ask("GET", url, seconds=30, max_bytes=100)
    refused_by_address = isinstance(
        getattr(failed.value.__cause__, "os_error", None), AddressRefused
    )
    assert refused_by_address or type(failed.value) is InvalidUpstreamResponse
    return failed.value


@pytest.mark.parametrize("host", FORMS)
async def test_no_form_of_a_private_address_is_connected_to(host: str, listener: Listener) -> None:
    """Whatever the spelling, the client refuses at once and no connection is opened."""
    zone = Zone({name: ["127.0.0.1"] for name in (*NUMBERS, *NAMES, host, host.lower())})
    url = f"https://{host}:{listener.port}/secret"
    await refusal(Guard(port=listener.port, resolver=zone), url)
    assert listener.connections == 0


@pytest.mark.parametrize("host", [*LITERALS, *NUMBERS, *NAMES])
async def test_the_connector_alone_refuses_them_too(host: str, listener: Listener) -> None:
    """The address is refused where the socket is made, whatever was thought of the URL."""
    zone = Zone({name: ["127.0.0.1"] for name in (host, host.lower(), host.rstrip("."))})
    guard = Guard(port=listener.port, resolver=zone)
    async with aiohttp.ClientSession(connector=guard.connector()) as session:
        with pytest.raises(aiohttp.ClientError) as failed:
            await session.get(f"http://{host}:{listener.port}/")
    # aiohttp itself does not take old spellings of IPv4 addresses for addresses.
    if not isinstance(failed.value, aiohttp.InvalidURL):
        assert isinstance(getattr(failed.value, "os_error", None), AddressRefused)
    assert listener.connections == 0


@pytest.mark.parametrize("address", [*V4, *V6])
async def test_a_dns_name_for_a_private_address_is_refused(
    address: str, listener: Listener
) -> None:
    """An address from DNS is checked like a literal."""
    zone = Zone({"gateway.example": [address]})
    url = f"https://gateway.example:{listener.port}/"
    failed = await refusal(Guard(port=listener.port, resolver=zone), url)
    assert isinstance(failed, UpstreamUnavailable)
    assert zone.lookups == ["gateway.example"]
    assert listener.connections == 0


@pytest.mark.parametrize(
    "answers", [["::1", "127.0.0.2"], ["127.0.0.2", "::1"], ["127.0.0.1", "::1", "127.0.0.2"]]
)
async def test_of_a_mixed_answer_only_public_addresses_are_tried(
    answers: Sequence[str], listener: Listener
) -> None:
    """A public address beside private ones does not let these in."""

    def permits(address: Address) -> bool:
        return str(address) == "127.0.0.2"

    zone = Zone({"gateway.example": answers})
    guard = Guard(port=listener.port, permits=permits, resolver=zone)
    url = f"https://gateway.example:{listener.port}/"
    async with HttpClient(guard) as outbound:
        with pytest.raises(UpstreamUnavailable):
            await outbound.ask("GET", url, seconds=30, max_bytes=100)
    assert zone.lookups == ["gateway.example"]
    assert listener.connections == 0


async def test_a_name_that_changes_its_address_gains_nothing(listener: Listener) -> None:
    """Rebinding: the address is checked of each socket, not of the name."""
    async with listening() as other:

        def permits(address: Address) -> bool:
            return str(address) == "::1"

        zone = Zone({"gateway.example": [["::1"], ["127.0.0.1"]]})
        guard = Guard(port=other.port, permits=permits, resolver=zone)
        async with aiohttp.ClientSession(connector=guard.connector()) as session:
            url = f"http://gateway.example:{other.port}/"
            async with session.get(url) as first:
                assert await first.read() == b"secret"
            with pytest.raises(aiohttp.ClientConnectorError) as failed:
                await session.get(url)
        assert isinstance(failed.value.os_error, AddressRefused)
        assert len(zone.lookups) == 2
        assert other.connections == 1


async def test_one_connection_is_one_lookup(listener: Listener) -> None:
    """What was looked up is what is connected to: there is no second look in between."""
    zone = Zone({"gateway.example": [["127.0.0.1"], ["192.0.2.1"]]})
    guard = Guard(port=listener.port, permits=lambda _: True, resolver=zone)
    url = f"http://gateway.example:{listener.port}/"
    async with (
        aiohttp.ClientSession(connector=guard.connector()) as session,
        session.get(url) as answer,
    ):
        assert answer.status == 200
    assert zone.lookups == ["gateway.example"]
    assert listener.connections == 1


async def test_another_port_is_refused_where_the_socket_is_made(listener: Listener) -> None:
    """Only the port of https is connected to, even at a public address."""
    guard = Guard(port=free_port(), permits=lambda _: True)
    async with aiohttp.ClientSession(connector=guard.connector()) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as failed:
            await session.get(f"http://127.0.0.1:{listener.port}/")
    assert isinstance(failed.value.os_error, AddressRefused)
    assert listener.connections == 0


@pytest.mark.parametrize("address", [*V4, *V6, "::1%lo", "fe80::1%eth0", "2606:4700::1111%eth0"])
def test_private_addresses_are_not_public(address: str) -> None:
    """Unmapped, global, unicast, and no IPv4 address in disguise."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    words(
        "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 223.255.255.1 "
        "2606:4700::1111 2001:4860:4860::8888 2a00:1450::1 2620:fe::fe ::ffff:8.8.8.8"
    ),
)
def test_public_addresses_are_public(address: str) -> None:
    """Addresses of the internet are permitted."""
    assert is_public(ip_address(address))


@given(st.ip_addresses(v=4))
@settings(max_examples=500, deadline=None)
def test_an_ipv4_address_is_the_same_inside_of_ipv6(address: IPv4Address) -> None:
    """Mapped, it is judged as what it is; in any other wrapping it is refused."""
    assert is_public(IPv6Address(f"::ffff:{address}")) == is_public(address)
    for prefix in ("::", "::ffff:0:", "64:ff9b::", "2001::"):
        assert not is_public(IPv6Address(f"{prefix}{address}"))
