"""Every name service keeps every promise of promises.py."""

from collections.abc import AsyncIterator

import pytest

from tests.names.benches import BENCHES
from tests.names.promises import Bench, Promises


@pytest.fixture(params=BENCHES)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A service and its world, fresh for each test."""
    async with BENCHES[request.param]() as bench:
        yield bench


class TestPromises(Promises):
    """The suite, on each bench."""
