"""Asking several at once: all answers, or the first failure.

Knows asyncio's task groups only: when one question fails the others are ended before anybody
hears of it, so no question outlives whoever asked. What is asked is left to the callers."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """The results of both; raises the error of the one that fails first."""
    try:
        async with asyncio.TaskGroup() as group:
            one, other = group.create_task(first), group.create_task(second)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return one.result(), other.result()


async def all_of(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return once each is done; raises the error of the one that fails first."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in coroutines:
                group.create_task(each)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
