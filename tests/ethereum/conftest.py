"""Parts that the tests of several nodes share."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.clock import Clock
from tests.fakes.ethereum import Ethereum, running_ethereum


@pytest.fixture
async def nodes() -> AsyncIterator[list[Ethereum]]:
    """Three nodes that agree in everything."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_ethereum()) for _ in range(3)]


@pytest.fixture
def clock() -> Clock:
    return Clock()
