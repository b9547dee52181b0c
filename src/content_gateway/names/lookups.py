"""In-flight look-ups: one for each question, bounded in number, shared fairly by requestor.

Owns their tasks and permits, so that a caller who is cancelled does not cancel the look-up for the
others. What a look-up does is left to cached_services.py."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.concurrency.loop_turns import Turns
from content_gateway.names.cache import CachedName, Question

Work: TypeAlias = Callable[[float, str], Coroutine[Any, Any, CachedName]]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A look-up that runs, or waits for its *permit*."""

    task: asyncio.Task[CachedName]
    permit: Permit


class Lookups:
    """At most *at_once* look-ups run and *waiting* more wait. Each has *seconds* in all, of which
    it waits for a permit for half at most: the servers have the other half. *limit_of* a requestor
    is how many of its run at most; 0: its share."""

    def __init__(
        self,
        *,
        at_once: int,
        waiting: int,
        seconds: float,
        limit_of: Callable[[str], int] | None = None,
    ) -> None:
        self._seconds = seconds
        self._semaphore = FairSemaphore(
            at_once,
            waiting=waiting,
            patience=seconds / 2,
            detail="Too many names are being looked up at once.",
            limit_of=limit_of,
        )
        self._turns = Turns()
        self._lookups: dict[Question, _Lookup] = {}

    def __contains__(self, question: Question) -> bool:
        return question in self._lookups

    def join(
        self,
        question: Question,
        requestor: str,
        work: Work,
    ) -> asyncio.Task[CachedName]:
        """The look-up for *question*, begun and charged to *requestor* if there is none.

        *work* is given its deadline by the event loop's clock, and the requestor. Raises
        Overloaded and TooManyAtOnce, here or in the task, for whoever begins a look-up, never for
        those who join."""
        lookup = self._lookups.get(question)
        if lookup is not None:
            lookup.permit.join(requestor)
            return lookup.task
        permit = self._semaphore.request(requestor)
        task = asyncio.create_task(self._run(permit, work), name=f"resolve {question[0]}")
        self._lookups[question] = _Lookup(task, permit)
        task.add_done_callback(lambda done: self._ended(question, done))
        return task

    async def close(self) -> None:
        """End every look-up and wait until it has ended."""
        tasks = [lookup.task for lookup in self._lookups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, permit: Permit, work: Work) -> CachedName:
        end = asyncio.get_running_loop().time() + self._seconds
        await permit.granted()
        await self._turns.begin_one()
        return await work(end, permit.holder or "")

    def _ended(self, question: Question, task: asyncio.Task[CachedName]) -> None:
        self._lookups.pop(question).permit.release()
        if not task.cancelled():
            task.exception()  # seen, even if every caller has given up
