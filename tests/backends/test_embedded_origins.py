"""HTTP gateways that a requestor names: asked for its content only, and where that is allowed."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.errors import InvalidUpstreamResponse, PinFailed, UpstreamError
from content_gateway.model.content_state import TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import OriginGuard
from tests.backends.backends import ABSENT, silent, status
from tests.fakes.origin import Origin, running_origin
from tests.ipld.dags import file, raw


@pytest.fixture
async def named() -> AsyncIterator[Origin]:
    """A gateway that only a requestor knows."""
    async with running_origin() as named:
        yield named


@pytest.fixture
async def permissive() -> AsyncIterator[HttpClient]:
    """The client that reaches loopback too, as an operator may allow."""
    async with HttpClient(OriginGuard(private=True)) as permissive:
        yield permissive


def address_of(origin: Origin) -> Multiaddr:
    port = origin.url.rpartition(":")[2]
    return Multiaddr.parse(f"/ip4/127.0.0.1/tcp/{port}/http")


def store_of(
    blocks: Blockstore, outbound: HttpClient, origin: Origin, via: HttpClient
) -> EmbeddedStore:
    return EmbeddedStore(blocks, TrustlessGateways(outbound, [origin.url]), to_origins=via)


async def test_an_origin_is_asked_for_its_content(
    blocks: Blockstore,
    outbound: HttpClient,
    origin: Origin,
    named: Origin,
    permissive: HttpClient,
) -> None:
    """What only it has is pinned; other contents never reach it."""
    root, named.blocks = file(40, 50)
    store = store_of(blocks, outbound, origin, permissive)
    await store.pin(root, ABSENT, silent, [address_of(named)])
    assert await status(store, root) is TrackerStatus.PINNED
    asked = len(named.requests)
    with pytest.raises(PinFailed):
        await store.pin(raw(b"another")[0], ABSENT, silent)
    assert len(named.requests) == asked


async def test_an_origin_that_lies_or_is_gone_stops_nobody(
    blocks: Blockstore,
    outbound: HttpClient,
    origin: Origin,
    named: Origin,
    permissive: HttpClient,
) -> None:
    """The gateways have it, and no answer says where that gateway is."""
    root, origin.blocks = file(5, 50)
    named.blocks, named.corrupt = origin.blocks, set(origin.blocks)
    gone = Multiaddr.parse("/ip4/127.0.0.1/tcp/9/http")
    store = store_of(blocks, outbound, origin, permissive)
    await store.pin(root, ABSENT, silent, [address_of(named), gone])
    assert await status(store, root) is TrackerStatus.PINNED
    with pytest.raises(UpstreamError) as failed:
        await store.pin(raw(b"nobody has it")[0], ABSENT, silent, [address_of(named)])
    assert named.url.removeprefix("http://") not in failed.value.detail
    assert "an origin" in failed.value.detail


async def test_without_leave_no_private_address_is_reached(
    blocks: Blockstore, outbound: HttpClient, origin: Origin, named: Origin
) -> None:
    """Whatever name or address leads there: it is checked when the socket is made."""
    root, named.blocks = raw(b"on a private address")
    async with HttpClient(OriginGuard()) as guarded:
        store = store_of(blocks, outbound, origin, guarded)
        with pytest.raises(UpstreamError):
            await store.pin(root, ABSENT, silent, [address_of(named)])
    assert named.requests == []


PORTS = {
    80: True,
    443: True,
    8080: True,
    1024: True,
    65535: True,
    22: False,
    25: False,
    1023: False,
}


@pytest.mark.parametrize("port", PORTS)
async def test_gateways_listen_on_some_ports_only(port: int) -> None:
    """No requestor has us talk to the well-known services of others."""
    url = Multiaddr.parse(f"/ip4/8.8.8.8/tcp/{port}/http").gateway_url
    assert url is not None
    if PORTS[port]:
        assert str(OriginGuard().check_url(url + "/ipfs/x?format=raw")).startswith("http://8.8.8.8")
    else:
        with pytest.raises(InvalidUpstreamResponse):
            OriginGuard().check_url(url)
