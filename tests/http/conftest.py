"""The service of the tests that have none of their own: it is before a miniature cluster. And a
connection to the server that a module calls `edge`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fakes.cluster import MiniCluster
from tests.http.held import before, running_cluster
from tests.http.raw import Edge, Wire
from tests.service import Service


@pytest.fixture
async def cluster() -> AsyncIterator[MiniCluster]:
    async with running_cluster() as cluster:
        yield cluster


@pytest.fixture
async def service(tmp_path: Path, cluster: MiniCluster) -> AsyncIterator[Service]:
    async with before(cluster, tmp_path) as service:
        yield service


@pytest.fixture
def wire(edge: Edge) -> Iterator[Wire]:
    with edge.connect() as wire:
        yield wire
