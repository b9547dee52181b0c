"""Waiting for the first outcome of a content: only a few callers may wait, and those hear it."""

import asyncio

from content_gateway.pins.outcomes import MOST_WAITING, Waiters
from tests.ledgers import cid
from tests.waiting import until

LONG = 60.0


async def waiters(outcomes: Waiters, number: int) -> list[asyncio.Task[bool]]:
    """So many callers, each about a content of its own, who have had their turn to wait."""
    tasks = [asyncio.create_task(outcomes.first(cid(index), LONG)) for index in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_few_wait_and_the_others_are_not_kept() -> None:
    """Of 64 clients at once all but a few are answered without any waiting."""
    outcomes = Waiters()
    tasks = await waiters(outcomes, 64)
    assert sum(not task.done() for task in tasks) == MOST_WAITING
    assert not any(task.result() for task in tasks if task.done())
    for index in range(64):
        outcomes.record_answer(cid(index))
    assert sum(await asyncio.gather(*tasks)) == MOST_WAITING


async def test_who_has_heard_or_gone_makes_room() -> None:
    """A wait ends with an outcome, with its timeout, or when the caller is cancelled."""
    outcomes = Waiters(limit=1)
    (task,) = await waiters(outcomes, 1)
    outcomes.record_answer(cid(0))
    assert await task
    assert not await outcomes.first(cid(0), 0.0)
    (task,) = await waiters(outcomes, 1)
    task.cancel()
    await until(task.done)
    (task,) = await waiters(outcomes, 1)
    assert not task.done()
    outcomes.record_answer(cid(0))
    assert await task
