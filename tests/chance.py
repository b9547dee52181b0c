"""The seed of all tests that draw their cases, another one each day.

A run prints it; TEST_SEED=... draws the same cases again."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, settings

SEED: Final = int(os.environ.get("TEST_SEED") or f"{datetime.now(UTC):%Y%m%d}")


def examples(number: int) -> Callable[[Any], Any]:
    """Run a property test on so many examples of the seed, in whatever time they take."""
    chosen = settings(
        max_examples=number,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def decorate(test: Any) -> Any:
        return hypothesis.seed(SEED)(chosen(test))

    return decorate
