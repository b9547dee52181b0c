"""An event loop on a virtual clock that runs what is ready in an order drawn from a seed.

Where nothing is ready the clock jumps to the next timer, and work for threads runs on the loop, so
one seed always takes the same course. Knows that each callback belongs to a simulated process: of a
process that was killed nothing runs any more, not even its clean-up. What processes are, and when
they die, is left to process.py and chaos.py."""

import asyncio
import heapq
import random
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple
from weakref import WeakSet

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")

THREAD_SECONDS: Final = 0.002  # the longest that work in a thread takes to begin
_LONGEST_CLEANUP: Final = 20  # awaits within one `finally` that a closed coroutine may still reach


class Owner(Protocol):
    """The simulated process to which a callback belongs."""

    is_dead: bool

    def step(self) -> None:
        """A callback of it is about to run; it may die right here."""


OWNER: Final[ContextVar[Owner | None]] = ContextVar("owner", default=None)
"""Whose callback it is; None for the world around the processes."""


class Stuck(AssertionError):
    """Everything waits, and no timer is set."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop whose `time` is virtual, in seconds from 0, and whose order *chance* draws."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._now = 0.0
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._is_running = self._is_closed = False
        self._kept: set[asyncio.Task[Any]] = set()
        self.callbacks = 0
        self.unhandled: list[str] = []

    # Time and callbacks.

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed:
            self._number += 1
            heapq.heappush(self._timers, (when, self._number, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: it is skipped when its time comes."""

    def run_until_complete(self, future: Any) -> Any:
        """Run until *future* is done; raises Stuck where it never can be."""
        events._set_running_loop(self)
        self._is_running = True
        try:
            awaited = asyncio.ensure_future(future, loop=self)
            while not awaited.done():
                self._run_once()
            return awaited.result()
        finally:
            self._is_running = False
            events._set_running_loop(None)

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        batch, self._ready = self._ready, []
        if len(batch) > 1:
            self._chance.shuffle(batch)
        for handle in batch:
            if handle.cancelled():
                continue
            owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
            if owner is not None:
                owner.step()
                if owner.is_dead:
                    continue
            self.callbacks += 1
            handle._run()

    def _jump(self) -> None:
        """Let the time pass until the next timer, and make all timers of that time ready."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise Stuck("everything waits, and no timer is set")
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(self._timers)[2])

    # Tasks, futures and threads.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], T], *args: *_Ts
    ) -> asyncio.Future[T]:
        """Run *func* on the loop, after the little time that a thread takes to begin."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as wrong:
                if not future.done():
                    future.set_exception(wrong)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self._chance.uniform(0, THREAD_SECONDS), run)
        return future

    def keep_tasks(self) -> None:
        """Hold on to what waits: a coroutine that is collected runs its clean-up, and a process
        that was killed must not."""
        self._kept.update(task for task in self._tasks if not task.done())

    # What asyncio asks of a loop besides.

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        wrong = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {wrong!r}")

    def close(self) -> None:
        """Nothing runs from now on; coroutines that wait are ended, and can do nothing more."""
        self._is_closed = True
        self._ready, self._timers = [], []
        for task in list(self._tasks):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _end(task.get_coro())  # type: ignore[arg-type]
        self._kept.clear()


def _end(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End it, however often its clean-up would wait for something."""
    for _ in range(_LONGEST_CLEANUP):
        with suppress(BaseException):
            coroutine.close()
            return


def outside() -> Context:
    """A context that belongs to no process."""
    context = copy_context()
    context.run(OWNER.set, None)
    return context
