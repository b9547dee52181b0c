"""Waiting for what must become true, without knowing when."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(
    question: Callable[[], Awaitable[T | None]], *, what: str = "yes", seconds: float = 60.0
) -> T:
    """The first true answer of the coroutine function *question*.

    Raises TimeoutError after *seconds*, which names *what* was waited for."""
    try:
        async with asyncio.timeout(seconds):
            while not (answer := await question()):
                await asyncio.sleep(0.02)
            return answer
    except TimeoutError as late:
        raise TimeoutError(f"waited up to {seconds:g} s: {what}") from late


async def until(question: Callable[[], T | None], *, seconds: float = 60.0) -> T:
    """The first true answer of the plain function *question*; fails after *seconds*."""
    async with asyncio.timeout(seconds):
        while not (answer := question()):
            await asyncio.sleep(0.01)
        return answer
