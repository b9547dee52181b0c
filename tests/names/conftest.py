"""Parts that the tests of the directory share."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.names.directory import Directory
from tests.names.services import Clock, Ipns, Service, Zone


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
async def directory(
    zone: Zone, service: Service, ipns: Ipns, clock: Clock
) -> AsyncIterator[Directory]:
    """A directory of one zone and one service, on the clock that tests move."""
    directory = Directory(local=[zone], services=[service], ipns=ipns, clock=clock)
    yield directory
    await directory.close()
