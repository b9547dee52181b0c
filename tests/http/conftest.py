"""The service of the tests that have none of their own: it is before a miniature cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.cluster import MiniCluster
from tests.http.held import before, running_cluster
from tests.service import Service


@pytest.fixture
async def cluster() -> AsyncIterator[MiniCluster]:
    async with running_cluster() as cluster:
        yield cluster


@pytest.fixture
async def service(tmp_path: Path, cluster: MiniCluster) -> AsyncIterator[Service]:
    async with before(cluster, tmp_path) as service:
        yield service
