"""A service of several processes from its start to its end: one listener, one supervisor.

Knows the signals and what each means, the service manager, and the admin listener, which shows all
workers together. The workers are left to supervisor.py; a service of one process, which needs none
of this, to serving.py."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import click
import structlog

from content_gateway.cli import hangup, lockfile
from content_gateway.cli.listeners import Listeners, open_listeners
from content_gateway.cli.service_manager import ServiceManager
from content_gateway.cli.supervisor import STOP_SECONDS, Supervisor
from content_gateway.cli.worker_process import WorkerProcess
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings

# Where the listeners are bound, which ledger is locked for which backend, and who shares the
# limits: done once.
_FOR_A_RESTART: Final = (
    *("host", "port", "data_dir", "database.url"),
    *("keys.mode", "pins.backend", "admin.host", "admin.port"),
    *("limits.url", "limits.prefix"),
)

T = TypeVar("T")

log = structlog.get_logger(__name__)


async def serve(
    chosen: Settings,
    announce: Callable[[str], None],
    reread: Callable[[], Settings],
    *,
    without_keys: str,
) -> None:
    """The service until it is told to stop; *announce* gets its base URL once it listens.

    At a SIGHUP its workers are replaced by such with what *reread* returns. *without_keys* is said
    at the start where nobody has a key. Raises WrongSettings."""
    from content_gateway.concurrency.garbage_collection import collect_seldom
    from content_gateway.http import admin
    from content_gateway.wiring.admin import admin_pages

    collect_seldom()
    manager = ServiceManager.take_from(os.environ)
    # First of all: nobody puts another ledger in its place while there are workers.
    with lockfile.held(chosen, has_demo=False):
        listeners = open_listeners(chosen, os.environ)
        service = _Service(chosen, listeners, manager, reread)
        pages = admin_pages(service.views)
        async with (
            service.limits_are_shared(),
            admin.served(pages, listeners.admin),
            manager.watched(),
        ):
            said = await service.begun()
            if said is None:
                return
            if not all(one["has_keys"] for one in said):
                click.echo(without_keys, err=True)
            announce(listeners.url)
            manager.ready(f"Listening on {listeners.url}, {len(said)} workers")
            async with service.chains_are_heard():
                await service.until_stopped()


class _Service:
    """The supervisor, and what it is told from outside."""

    def __init__(
        self,
        chosen: Settings,
        listeners: Listeners,
        manager: ServiceManager,
        reread: Callable[[], Settings],
    ) -> None:
        from content_gateway.wiring.all_workers import AllWorkers
        from content_gateway.wiring.chain_listeners import ListenersOfWorkers
        from content_gateway.wiring.shared_limits import LimitsOfWorkers

        self._manager = manager
        self._reread = reread
        self._hangup, self._stop, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._limits = limits = LimitsOfWorkers()
        self._supervisor = supervisor = Supervisor(
            chosen,
            listeners.service,
            self._hear,
            is_inherited=listeners.is_inherited,
            counts=limits.counts,
        )
        self._chains = chains = ListenersOfWorkers(partial(supervisor.tell, "changed"))
        self.views = AllWorkers(
            supervisor.ask,
            serving=lambda: supervisor.serving,
            wanted=lambda: supervisor.settings.workers,
            replaced=lambda: supervisor.replaced,
            is_draining=self._stop.is_set,
            store=limits,
            listeners=lambda: chains.listeners,
        )

    def limits_are_shared(self) -> AbstractAsyncContextManager[None]:
        """While entered limits are shared with other machines, if the settings say so.

        Raises WrongSettings."""
        supervisor = self._supervisor
        return self._limits.shared(supervisor.settings.limits, supervisor.tell)

    @asynccontextmanager
    async def chains_are_heard(self) -> AsyncIterator[None]:
        """While entered, workers are told which names have changed, if the settings say so."""
        try:
            await self._chains.listen(self._supervisor.settings)
            yield
        finally:
            await self._chains.close()

    async def begun(self) -> list[Any] | None:
        """What the workers say once all of them take requests; None where it was stopped before.

        Raises WrongSettings."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        return await self._unless_stopped(self._supervisor.begin())

    async def until_stopped(self) -> None:
        """Reload at each SIGHUP until a signal says to stop; then drain, and stop all workers."""
        await self._unless_stopped(self._reload_each())
        drain = self._supervisor.settings.admin.drain
        status = f"Draining for {drain:g} s" if drain else "Stopping"
        self._manager.stopping(status, drain + STOP_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(drain):
                await self._over.wait()
        self._over.set()
        await self._supervisor.stop()

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What *work* returns; None, and it is cancelled, where a signal comes before."""
        working = asyncio.create_task(work)
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, stopped):
            task.cancel()
        with suppress(asyncio.CancelledError):
            return await working
        return None

    async def _reload_each(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            self._manager.reloading()
            try:
                await self._reload()
            except WrongSettings as wrong:
                log.error("the settings are wrong now, the old ones hold", reason=wrong.detail)
            self._manager.reloaded()

    async def _reload(self) -> None:
        running, fresh = self._supervisor.settings, await asyncio.to_thread(self._reread)
        changed = hangup.differences(running, fresh)
        if fixed := [name for name in changed if name in _FOR_A_RESTART]:
            raise WrongSettings(f"{', '.join(fixed)}: only a restart can change that")
        await self._supervisor.reload(fresh)
        await self._chains.listen(fresh)
        log.info("the workers were replaced", workers=fresh.workers, settings=changed)

    def _hear(self, worker: WorkerProcess, what: str, value: Any) -> None:
        if what == "taken":
            self._limits.hear(value)
        elif what == "hears":
            for change in self._chains.lately:
                worker.channel.tell("changed", change)
        elif what == "last":
            self.views.has_last(worker, value)
        elif what == "ended":
            self.views.has_ended(worker)

    def _signalled(self, number: int) -> None:
        """The first says to stop, the second ends the drain, and one more SIGINT everything."""
        if not self._stop.is_set():
            self._stop.set()
        elif not self._over.is_set():
            self._over.set()
        elif number == signal.SIGINT:
            self._supervisor.kill()
