"""The parts that several tests of real servers share: three Kubos, and a cluster of three peers."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.world.cluster import Cluster, running_clusters
from tests.world.ens import EnsWorld
from tests.world.ethereum import Anvil, CountingProxy, running_anvil
from tests.world.kubo import Kubo, running_kubos


@pytest.fixture
async def kubos(tmp_path: Path) -> AsyncIterator[Sequence[Kubo]]:
    async with running_kubos(tmp_path / "kubos", 3) as kubos:
        yield kubos


@pytest.fixture
async def peers(tmp_path: Path, kubos: Sequence[Kubo]) -> AsyncIterator[Sequence[Cluster]]:
    async with running_clusters(tmp_path / "clusters", kubos) as peers:
        yield peers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def anvil(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Anvil]:
    """A node for Ethereum."""
    async with running_anvil(tmp_path_factory.mktemp("chain")) as anvil:
        yield anvil


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ens(anvil: Anvil) -> EnsWorld:
    return await EnsWorld.deploy(anvil)


@pytest.fixture
async def proxy(anvil: Anvil, ens: EnsWorld) -> AsyncIterator[CountingProxy]:
    """What counts the questions to the node."""
    async with CountingProxy(anvil.url) as proxy:
        yield proxy
