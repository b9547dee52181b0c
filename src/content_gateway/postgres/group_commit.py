"""Group commit on the event loop: all writes of one kind that wait become one transaction.

A transaction for each write costs a sync to disk and a notification each (docs/facts/postgres.md);
so while one group is committed the next one gathers. Writes enter a group in turn by requestor
(concurrency/write_queue.py). The next begins while one is under way, so that the database never
waits for us; but what a requestor wrote takes effect in its order, an addition before the removal
that came after it. What a group does is left to the stores."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, cast

import structlog

from content_gateway.concurrency.write_queue import Write, WriteQueue
from content_gateway.errors import GatewayError, StorageUnavailable
from content_gateway.telemetry.numbers import Histogram

Item = TypeVar("Item")
T = TypeVar("T")
# Commits all items in one transaction, and returns as many results.
Together = Callable[[Sequence[Item]], Awaitable[Sequence[T]]]

log = structlog.get_logger(__name__)


class GroupCommit:
    """Groups of up to *group* writes, *at_once* of them under way; a second one begins when as many
    wait as the first one has, since small ones cost more than they gain. At most *limit* writes of
    one requestor wait."""

    def __init__(
        self, *, limit: int = 10_000, group: int = 256, at_once: int = 2, crowd: int = 8
    ) -> None:
        self._writes = WriteQueue(self._take, limit=limit, group=group, crowd=crowd)
        self._group: Final = group
        self._at_once: Final = at_once
        self._waiting: deque[Write] = deque()
        self._under_way: dict[asyncio.Task[None], Sequence[Write]] = {}
        self._is_scheduled = False

    @property
    def sizes(self) -> Histogram:
        """How many writes each group had."""
        return self._writes.sizes

    @property
    def seconds(self) -> Histogram:
        """How long each commit took."""
        return self._writes.seconds

    @property
    def unanswered(self) -> int:
        """How many writes wait or are under way."""
        return self._writes.unanswered

    async def write(self, together: Together[Item, T], item: Item, requestor: str = "") -> T:
        """The result of *item*, once *together* has committed it with others.

        Raises what *together* raises for it, StorageUnavailable, and Overloaded when too many of
        the requestor's wait. A caller who is cancelled does not stop it."""
        if self._writes.is_over:
            raise StorageUnavailable("The ledger is closed.")
        loop = asyncio.get_running_loop()
        return cast(T, await self._writes.put(loop, together, item, requestor))

    async def close(self) -> None:
        """Commit what waits."""
        await self._writes.close()

    def _take(self, write: Write) -> None:
        self._waiting.append(write)
        if not self._is_scheduled and len(self._under_way) < self._at_once:
            # Not at once: whoever else writes in this turn of the event loop comes along.
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        while len(self._under_way) < self._at_once and (group := self._next()):
            task = asyncio.create_task(self._commit(group), name="group commit")
            self._under_way[task] = group

    def _next(self) -> list[Write]:
        """The first of those that wait, as far as they are of one kind; nobody while too few wait,
        or where the requestor has writes of another kind under way."""
        group: list[Write] = []
        waiting = self._waiting
        if not waiting or len(waiting) < sum(map(len, self._under_way.values())):
            return group
        kind = waiting[0].job
        others = [begun for begun in self._under_way.values() if begun[0].job is not kind]
        busy = {write.requestor for begun in others for write in begun}
        while waiting and len(group) < self._group:
            write = waiting[0]
            if write.job is not kind or write.requestor in busy:
                break
            group.append(waiting.popleft())
        return group

    async def _commit(self, group: Sequence[Write]) -> None:
        begun = time.perf_counter()
        try:
            await self._run(group)
        finally:
            self._writes.sizes.observe(len(group))
            self._writes.seconds.observe(time.perf_counter() - begun)
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - it runs as one
            del self._under_way[cast("asyncio.Task[None]", task)]
            self._writes.answer(group)
            self._begin()

    async def _run(self, group: Sequence[Write]) -> None:
        """Give each write of *group* a result or an error."""
        try:
            results: Sequence[Any] = await group[0].job([write.note for write in group])
            for write, result in zip(group, results, strict=True):
                if isinstance(result, Exception):
                    write.error = result
                else:
                    write.result = result
        except GatewayError as refused:
            for write in group:
                write.error = refused
        except Exception as bug:
            log.exception("writes failed, by a fault of ours", number=len(group))
            for write in group:
                write.error = bug
