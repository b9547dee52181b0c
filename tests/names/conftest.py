"""Parts that the tests of the directory share."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.names.directory import Directory
from tests.clock import Clock
from tests.names.services import Blocks, Ipns, Memory, Service, Zone, directory_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def zone() -> Zone:
    return Zone()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def ipns() -> Ipns:
    return Ipns()


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def blocks() -> Blocks:
    return Blocks()


@pytest.fixture
async def directory(  # noqa: PLR0917 - each is a fixture
    zone: Zone, service: Service, ipns: Ipns, memory: Memory, blocks: Blocks, clock: Clock
) -> AsyncIterator[Directory]:
    """A directory of one zone and one service, on the clock that tests move."""
    directory = directory_of(
        service, local=[zone], ipns=ipns, memory=memory, blocks=blocks, clock=clock
    )
    yield directory
    await directory.close()
