"""The parts that several tests of real servers share: three Kubos, and a cluster of three peers."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.world.cluster import Cluster, running_clusters
from tests.world.kubo import Kubo, running_kubos


@pytest.fixture
async def kubos(tmp_path: Path) -> AsyncIterator[Sequence[Kubo]]:
    async with running_kubos(tmp_path / "kubos", 3) as kubos:
        yield kubos


@pytest.fixture
async def peers(tmp_path: Path, kubos: Sequence[Kubo]) -> AsyncIterator[Sequence[Cluster]]:
    async with running_clusters(tmp_path / "clusters", kubos) as peers:
        yield peers
