"""Every pin backend keeps every promise of promises.py."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.pins.bench_cluster import (
    RealClusterWorld,
    cluster_bench,
    real_cluster_bench,
    real_cluster_world,
    wired_cluster_bench,
)
from tests.pins.bench_embedded import embedded_bench
from tests.pins.bench_kubo import kubo_bench, real_kubo_bench
from tests.pins.promises import Bench, Promises

Factory = Callable[[Path], AbstractAsyncContextManager[Any]]

REAL_CLUSTER = "real cluster"
BENCHES: dict[str, Factory] = {
    "miniature cluster": cluster_bench,
    "miniature cluster without HTTP": wired_cluster_bench,
    "miniature Kubo": kubo_bench,
    "real Kubo": real_kubo_bench,
    "embedded store": embedded_bench,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealClusterWorld]:
    """Real peers, for all tests: it takes them some seconds to find each other."""
    async with real_cluster_world(tmp_path_factory.mktemp("real")) as world:
        yield world


@pytest.fixture(params=[*BENCHES, REAL_CLUSTER])
def factory(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    if request.param == REAL_CLUSTER:
        world = request.getfixturevalue("real_world")
        return lambda _: real_cluster_bench(world)
    return BENCHES[request.param]


@pytest.fixture
async def bench(factory: Factory, tmp_path: Path) -> AsyncIterator[Bench]:
    """A backend and its world, fresh for each test."""
    async with factory(tmp_path) as bench:
        yield bench


@pytest.mark.timeout(600)
class TestPromises(Promises):
    """The suite, on each bench."""
