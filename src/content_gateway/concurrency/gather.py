"""Asking several at once: all answers, or the first failure.

Knows asyncio's task groups only: when one question fails the others are ended before anybody
hears of it, so no question outlives whoever asked. What is asked is left to the callers."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
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


async def each_of(
    ask: Callable[[A], Coroutine[Any, Any, B]], items: Sequence[A], *, at_once: int
) -> list[B]:
    """What *ask* returns for each of *items*, in their order, so many *at_once*; raises the error
    of the one that fails first."""
    found: dict[int, B] = {}
    left = iter(enumerate(items))

    async def work() -> None:
        for number, item in left:
            found[number] = await ask(item)

    await all_of(work() for _ in range(min(at_once, len(items))))
    return [found[number] for number in range(len(items))]
