"""Parts that the tests of this room share: what each promise is tested with, over every adapter."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.wiring.ledgers import ObservableWorkQueue
from tests.ledger.stands import ADAPTERS, Opened, Stand, stand_of
from tests.ledgers import Clock, Held, World, clock, database

__all__ = ["clock", "database"]


@pytest.fixture(params=ADAPTERS)
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    return stand_of(request.param, tmp_path)


@pytest.fixture
async def opened(stand: Stand, clock: Clock) -> AsyncIterator[Opened]:
    async with stand.ledger(clock) as opened:
        yield opened


@pytest.fixture
def ledger(opened: Opened) -> Held:
    return opened.pins


@pytest.fixture
def contents(opened: Opened) -> ObservableWorkQueue:
    return opened.work


@pytest.fixture
def world(opened: Opened, clock: Clock) -> World:
    return World(opened.pins, opened.work, clock)
