"""The supervisor: keeps as many workers as there should be, and replaces them one generation by
the next.

Theory of operation. The listening socket is open here for as long as the service is, and every
worker accepts from it: whoever connects while workers come and go waits in its queue, and is never
refused. A worker that ends is replaced at once, or with backoff where that happens again and again.
A reload starts all new workers first; when each of them takes requests the old ones leave, and if
one of them cannot start nothing has changed.

It does no work of its own: it opens no ledger and asks nobody. What its signals are, and whom it
tells, is left to supervised.py, one process to worker_process.py."""

import asyncio
from collections.abc import Callable
from socket import socket
from typing import Any, Final

import structlog

from content_gateway.cli.channel import ChannelClosed
from content_gateway.cli.worker_process import Charge, WorkerProcess
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings

# Requests have 15 s at a stop (ClientLimits.stop), and then the databases are closed.
STOP_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 30.0  # that a worker has lived if its end is no part of a series
_LEAST_BACKOFF: Final = 0.5
_MOST_BACKOFF: Final = 30.0
_ASK_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class Supervisor:
    """The workers behind *listener*; *heard* gets what they say, and that one has "ended".

    A listener that *is_inherited* stays open in the process that it came from."""

    def __init__(
        self,
        settings: Settings,
        listener: socket,
        heard: Callable[[WorkerProcess, str, Any], None],
        *,
        is_inherited: bool,
        counts: Callable[[], Any] = lambda: None,
    ) -> None:
        """*counts* is what keys have used where no worker can say."""
        self.settings = settings
        self.replaced = 0  # workers that ended by themselves
        self._listener = listener
        self._is_inherited = is_inherited
        self._heard = heard
        self._known_counts = counts
        self._workers: list[WorkerProcess] = []  # of the generation that is to serve
        self._fresh: list[WorkerProcess] = []  # of the one that is about to
        self._leaving: set[asyncio.Task[None]] = set()
        self._keeping: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()  # no worker is forgotten that begins meanwhile

    @property
    def serving(self) -> list[WorkerProcess]:
        """The workers that take requests, without those that leave."""
        return [worker for worker in self._workers if worker.is_serving]

    async def begin(self) -> list[Any]:
        """Start them; what they say once all take requests. Raises WrongSettings."""
        return await self._change(self.settings)

    async def reload(self, settings: Settings) -> None:
        """Replace all workers by those with *settings*; raises WrongSettings, and then the old ones
        go on."""
        await self._change(settings)

    async def ask(self, what: str, seconds: float) -> list[tuple[WorkerProcess, Any]]:
        """What each of those that serve says to *what*, without those that do not answer in so
        many *seconds*."""

        async def answer(worker: WorkerProcess) -> tuple[WorkerProcess, Any] | None:
            try:
                return worker, await worker.channel.ask(what, seconds)
            except ChannelClosed:
                return None

        answers = await asyncio.gather(*map(answer, self.serving))
        return [one for one in answers if one is not None]

    async def stop(self) -> None:
        """Have all of them answer what is under way, and end."""
        await self._keep_no_more()
        for worker in self._workers:
            self._let_go(worker, listener_stays=self._is_inherited)
        while self._leaving:
            await asyncio.wait(self._leaving)

    def tell(self, what: str, value: Any) -> None:
        """Tell all of them, also those that do not serve yet."""
        for worker in (*self._workers, *self._fresh):
            worker.channel.tell(what, value)

    def kill(self) -> None:
        """End all of them now."""
        for worker in self._workers:
            worker.kill()

    async def _change(self, settings: Settings) -> list[Any]:
        counts = await self._counts()
        self._fresh = fresh = []
        try:
            for number in range(settings.workers):
                fresh.append(await self._start(settings, number, counts))
            said = await asyncio.gather(*(worker.until_ready() for worker in fresh))
        except BaseException:
            for worker in fresh:
                worker.kill()
            await asyncio.gather(*(worker.ended() for worker in fresh))
            raise
        finally:
            self._fresh = []
        await self._keep_no_more()
        old, self._workers, self.settings = self._workers, fresh, settings
        self._keeping = [asyncio.create_task(self._keep(place)) for place in range(len(fresh))]
        for worker in old:
            self._let_go(worker, listener_stays=True)
        return said

    async def _keep_no_more(self) -> None:
        async with self._changing:
            for task in self._keeping:
                task.cancel()

    def _let_go(self, worker: WorkerProcess, *, listener_stays: bool) -> None:
        worker.leave(listener_stays=listener_stays)
        task = asyncio.create_task(self._see_off(worker), name=f"end {worker.pid}")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _see_off(self, worker: WorkerProcess) -> None:
        await worker.end_by(STOP_SECONDS)
        self._heard(worker, "ended", None)

    async def _keep(self, place: int) -> None:
        """Have a worker at *place* of the generation, for as long as it is the last one."""
        now, backoff = asyncio.get_running_loop().time, 0.0
        while True:
            worker = self._workers[place]
            status = await worker.ended()
            self._heard(worker, "ended", None)
            self.replaced += 1
            wait = backoff if now() - worker.started < _STEADY_SECONDS else 0.0
            backoff = min(_MOST_BACKOFF, max(_LEAST_BACKOFF, 2 * wait))
            log.error(
                "a worker ended, and is replaced",
                pid=worker.pid,
                status=status,
                reason=worker.failure,
                again_in=wait,
            )
            await self._replace(place, wait)

    async def _replace(self, place: int, wait: float) -> None:
        """Have another worker at *place*, in *wait* seconds or as soon as there can be one."""
        while True:
            await asyncio.sleep(wait)
            counts, wait = await self._counts(), _MOST_BACKOFF
            try:
                async with self._changing:
                    self._workers[place] = await self._start(self.settings, place, counts)
                return
            except WrongSettings as lack:
                log.error("no worker can be started", reason=lack.detail)

    async def _start(self, settings: Settings, place: int, counts: Any) -> WorkerProcess:
        charge = Charge(settings, self._is_inherited, place == 0, counts)
        try:
            return await WorkerProcess.start(charge, self._listener, self._hear)
        except OSError as lack:  # of memory, of processes, of files
            raise WrongSettings(f"no process can be started: {lack}") from lack

    async def _counts(self) -> Any:
        """What keys have used by now, as one of the workers knows it."""
        for worker in self.serving:
            try:
                return await worker.channel.ask("counts", _ASK_SECONDS)
            except ChannelClosed:
                continue
        return self._known_counts()

    def _hear(self, worker: WorkerProcess, what: str, value: Any) -> None:
        if what == "taken":  # by keys with limits, which are those of all processes together
            for other in (*self._workers, *self._fresh):
                if other is not worker:
                    other.channel.tell(what, value)
        self._heard(worker, what, value)
