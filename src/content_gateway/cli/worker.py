"""One of several processes of a service: takes requests until its supervisor says that it is over.

Its settings come over the channel, and what it counts and finds goes back over it. Signals are the
supervisor's: it drains whether it is told to, or the supervisor is gone. Started by
worker_process.py, and by nobody else."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from math import ceil
from typing import TYPE_CHECKING, Any

from content_gateway.cli import common, lockfile, serving
from content_gateway.cli.channel import Channel
from content_gateway.cli.worker_process import Charge
from content_gateway.errors import GatewayError
from content_gateway.telemetry import logs

if TYPE_CHECKING:
    from content_gateway.http.server import Server
    from content_gateway.http.shared_counts import SharedCounts
    from content_gateway.wiring.admin import Views


def main() -> None:
    """Run one worker, on the descriptors of its channel and its listener; ends the process."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    channel, listener = map(int, sys.argv[1:])
    common.run(_Work().run(socket.socket(fileno=channel), socket.socket(fileno=listener)))


class _Work:
    def __init__(self) -> None:
        self._charge = asyncio.Event()
        self._charged: Charge | None = None
        self._is_over = False
        self._listener_stays = False
        self._server: Server | None = None
        self._counts: SharedCounts | None = None
        # What others let through before there were counts.
        self._early: list[tuple[str, Any]] = []
        self._hear_change: Callable[[Any], None] | None = None
        self._views: Views | None = None

    async def run(self, ours: socket.socket, listener: socket.socket) -> None:
        answers = {
            "pulse": self._pulse,
            "counts": self._counted,
            "families": self._families,
            "report": self._report,
            "status": self._status,
        }
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(
            lambda: Channel(self._told, answers, self._end), sock=ours
        )
        await self._charge.wait()
        if self._charged is None:  # the supervisor is gone already
            return
        chosen = self._charged.settings.log
        logs.configure(chosen.level, chosen.format)
        try:
            await self._serve(self._charged, listener, channel)
        except GatewayError as failed:
            channel.tell("failed", failed.detail)
        channel.close()
        await asyncio.sleep(0)

    async def _serve(self, charge: Charge, listener: socket.socket, channel: Channel) -> None:
        from content_gateway.concurrency.garbage_collection import collect_later, collect_seldom

        collect_later()
        from content_gateway.http.server import make_server
        from content_gateway.http.shared_counts import SharedCounts
        from content_gateway.wiring.admin import views_of
        from content_gateway.wiring.app import opened

        settings = charge.settings
        async with AsyncExitStack() as stack:
            # As the supervisor, which may be killed: then nobody touches the ledger meanwhile.
            stack.enter_context(lockfile.held(settings, has_demo=False))
            gateway = await stack.enter_async_context(opened(settings))
            self._counts = SharedCounts(gateway.limits, lambda taken: channel.tell("taken", taken))
            self._counts.hear_late(charge.counts or {})
            for what, value in self._early:
                self._hear(self._counts, what, value)
            await gateway.ledger.claim_backend(settings.pins.backend)
            gateway.start(resyncs_now=charge.is_first, listens=False)
            self._hear_change = gateway.hear
            channel.tell("hears")
            if settings.ens.rpc_urls:
                gateway.universal_resolver.start()
            has_keys = settings.keys.mode != "issued" or bool(await gateway.issued_keys.all())
            server = make_server(
                gateway.api,
                connections=ceil(settings.connections / settings.workers),
                is_local=settings.keys.mode == "open",
                sites=gateway.hosts.suffixes,
                slow_rate=settings.capacity.slow_rate,
                announce=lambda: channel.tell("ready", {"has_keys": has_keys}),
                inherited=True,
            )
            server.owns_signals = False
            self._views = await stack.enter_async_context(
                views_of(gateway, settings, server.server_state, is_worker=True)
            )
            self._server = server
            self._pass_on_end()
            collect_seldom()
            with serving.imported_beside(serving.FIRST_NEEDED):
                await server.serve(sockets=[listener])
            self._counts.tell()
            channel.tell("last", await self._families())

    def _told(self, what: str, value: Any) -> None:
        if what == "charge":
            self._charged = value
            self._listener_stays = value.is_inherited
            self._charge.set()
        elif what in ("taken", "heard", "totals"):
            if self._counts is None:
                self._early.append((what, value))
            else:
                self._hear(self._counts, what, value)
        elif what == "changed" and self._hear_change is not None:
            self._hear_change(value)
        elif what == "stop":
            self._listener_stays = value
            self._end()

    @staticmethod
    def _hear(counts: "SharedCounts", what: str, value: Any) -> None:
        """Count what another worker has *taken*, or was *heard* of other machines; or have what
        the *totals* of all have more."""
        if what == "taken":
            counts.hear(value)
        elif what == "heard":
            counts.hear_late(value)
        else:
            counts.raise_to(value)

    def _end(self) -> None:
        self._is_over = True
        self._charge.set()
        self._pass_on_end()

    def _pass_on_end(self) -> None:
        if self._is_over and self._server is not None:
            self._server.inherited = self._listener_stays
            self._server.should_exit = True

    async def _pulse(self) -> None:
        """That the event loop turns is all that is to be told."""

    async def _counted(self) -> Any:
        return self._counts.counts() if self._counts is not None else {}

    async def _families(self) -> Any:
        return await self._views.families() if self._views is not None else []

    async def _report(self) -> Any:
        return await self._views.report() if self._views is not None else None

    async def _status(self) -> Any:
        return await self._views.status() if self._views is not None else None


if __name__ == "__main__":
    main()
