"""Group commit on the event loop: all writes of one kind that wait become one transaction.

A transaction for each write costs a sync to disk and a notification each (docs/facts/postgres.md);
so while one group is committed the next one gathers. Writes enter a group in turn by requestor
(concurrency/write_queue.py). The next begins while one is under way, so that the database never
waits for us; but what a requestor wrote takes effect in its order, an addition before the removal
that came after it. Where groups take long, as while commits wait for a standby that is unreachable,
those behind them would wait for many: so each write has a deadline of its own. What a group does is
left to the stores."""

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
    one requestor wait, each of them *patience* seconds."""

    def __init__(
        self,
        *,
        limit: int = 10_000,
        group: int = 256,
        at_once: int = 2,
        crowd: int = 8,
        patience: float = 15.0,
    ) -> None:
        self._writes = WriteQueue(self._take, limit=limit, group=group, crowd=crowd)
        self._group: Final = group
        self._at_once: Final = at_once
        self._waiting: deque[Write] = deque()
        self._under_way: dict[asyncio.Task[None], Sequence[Write]] = {}
        self._is_scheduled = False
        self._patience: Final = patience
        self._deadlines: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

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

        Raises what *together* raises for it, StorageUnavailable, also where it is too late: then it
        is not begun any more, and of one that was begun nobody knows. Raises Overloaded when too
        many of the requestor's wait. A caller who is cancelled does not stop it."""
        if self._writes.is_over:
            raise StorageUnavailable("The ledger is closed.")
        loop = asyncio.get_running_loop()
        future = self._writes.put(loop, together, item, requestor)
        self._watch(loop, future)
        return cast(T, await future)

    async def close(self) -> None:
        """Commit what waits."""
        await self._writes.close()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        """Have *future* refused if it is not done in time; one timer watches the oldest."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].done():
            deadlines.popleft()
        deadlines.append((loop.time() + self._patience, future))
        if self._timer is None:
            self._timer = loop.call_at(deadlines[0][0], self._refuse_late)

    def _refuse_late(self) -> None:
        loop, deadlines = asyncio.get_running_loop(), self._deadlines
        self._timer = None
        while deadlines and (deadlines[0][0] <= loop.time() or deadlines[0][1].done()):
            _, future = deadlines.popleft()
            if not future.done():
                future.set_exception(StorageUnavailable("The ledger is too busy."))
        if deadlines:
            self._timer = loop.call_at(deadlines[0][0], self._refuse_late)

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
        first = self._first()
        if first is None or len(self._waiting) < sum(map(len, self._under_way.values())):
            return group
        others = [begun for begun in self._under_way.values() if begun[0].job is not first.job]
        busy = {write.requestor for begun in others for write in begun}
        while len(group) < self._group and (write := self._first()) is not None:
            if write.job is not first.job or write.requestor in busy:
                break
            group.append(self._waiting.popleft())
        return group

    def _first(self) -> Write | None:
        """The first that waits, behind those that were refused as it was too late."""
        while self._waiting:
            write = self._waiting[0]
            if not write.future.done() or write.future.cancelled():
                return write
            self._writes.answer([self._waiting.popleft()])
        return None

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
