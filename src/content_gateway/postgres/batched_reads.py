"""Reads of one key each that are asked together: what waits becomes one statement.

A statement for each key costs a round trip, and a process of the server that wakes up. So while one
batch is asked the next one gathers. A key that several want is asked for once. Knows nothing of
what is read."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from content_gateway.errors import Overloaded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST_WAITING: Final = 20_000


class BatchedReads(Generic[K, V]):
    """Answers by key; *ask* is given up to *most* keys and returns those that it finds.

    At most *at_once* batches are under way."""

    def __init__(
        self,
        ask: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]],
        *,
        most: int = 256,
        at_once: int = 2,
    ) -> None:
        self._ask = ask
        self._most = most
        self._at_once = at_once
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_scheduled = False

    async def of(self, key: K) -> V | None:
        """What there is for *key* now; None if there is nothing. Raises what *ask* raises, and
        Overloaded."""
        future = self._waiting.get(key)
        if future is None:
            if len(self._waiting) >= _MOST_WAITING:
                raise Overloaded("Too many reads are waiting.")
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            if not self._is_scheduled and len(self._tasks) < self._at_once:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._begin)
        return await asyncio.shield(future)

    def _begin(self) -> None:
        self._is_scheduled = False
        while self._waiting and len(self._tasks) < self._at_once:
            keys = list(self._waiting)[: self._most]
            batch = {key: self._waiting.pop(key) for key in keys}
            task = asyncio.create_task(self._answer(batch), name="batched reads")
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin()

    async def _answer(self, batch: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._ask(list(batch))
        except Exception as failed:
            for future in batch.values():
                if not future.done():
                    future.set_exception(failed)
                    future.exception()  # retrieved: who asked may be gone
            return
        except BaseException:
            for future in batch.values():
                future.cancel()
            raise
        for key, future in batch.items():
            if not future.done():
                future.set_result(found.get(key))
