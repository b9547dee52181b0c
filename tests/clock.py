"""A clock that moves only when a test says so, and tasks that run as far as they can meanwhile."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
_BEGUN = 1_000.0
_TURNS = 20

T = TypeVar("T")


class Clock:
    """Monotonic seconds, *now*, and the time of day, which is NOW at first."""

    def __init__(self) -> None:
        self.now = _BEGUN

    def __call__(self) -> float:
        return self.now

    def today(self) -> datetime:
        """The time of day."""
        return NOW + timedelta(seconds=self.now - _BEGUN)

    def pass_(self, seconds: float) -> None:
        """Let *seconds* go by."""
        self.now += seconds


async def let_tasks_run() -> None:
    """Let every task run as far as it can."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def at_once(question: Coroutine[Any, Any, T]) -> T:
    """The answer to *question*, which waits for nothing."""
    asked = asyncio.create_task(question)
    await let_tasks_run()
    assert asked.done(), "it waits"
    return asked.result()
