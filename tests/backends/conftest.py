"""Parts that the tests of each pin backend share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.net.http_client import HttpClient
from tests.backends.cluster_world import World
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import running_servers
from tests.fakes.kubo import Kubo as Node
from tests.fakes.kubo import running_kubo
from tests.fakes.origin import Origin


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with running_kubo() as node:
        yield node


@pytest.fixture
def kubo(outbound: HttpClient, node: Node) -> Kubo:
    return Kubo(outbound, node.url + "/", seconds=10)


@pytest.fixture
async def world(outbound: HttpClient) -> AsyncIterator[World]:
    """A miniature cluster of three peers that are well, and hold nothing."""
    rest = MiniRest(MiniCluster(3))
    async with running_servers(rest) as servers:
        yield World(outbound, rest, servers)


@pytest.fixture
async def blocks(tmp_path: Path) -> AsyncIterator[Blockstore]:
    async with Blockstore(tmp_path / "blocks.sqlite") as blocks:
        yield blocks


@pytest.fixture
def gateways(outbound: HttpClient, origin: Origin, other: Origin) -> TrustlessGateways:
    return TrustlessGateways(outbound, [origin.url, other.url + "/"], seconds=5)


@pytest.fixture
def store(blocks: Blockstore, gateways: TrustlessGateways) -> EmbeddedStore:
    return EmbeddedStore(blocks, gateways)
