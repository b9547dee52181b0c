"""A store for a test: once a Redis, once a Valkey."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.world.stores import KINDS, Store, running_store


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A running store of each kind."""
    async with running_store(request.param, tmp_path / "store") as started:
        yield started
