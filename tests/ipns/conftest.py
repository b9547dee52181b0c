"""A clock that is moved, and a source of records."""

import pytest

from tests.clock import Clock
from tests.ipns.sources import Source


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source() -> Source:
    return Source()
