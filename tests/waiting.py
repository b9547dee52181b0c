"""Waiting for what must become true, without knowing when."""

import asyncio
from typing import Any


async def eventually(question: Any, *, seconds: float = 20.0) -> Any:
    """The first true answer of the coroutine function *question*; fails after *seconds*."""
    async with asyncio.timeout(seconds):
        while not (answer := await question()):
            await asyncio.sleep(0.02)
        return answer
