"""A service from its start to its end: opened, announced, and stopped by a signal.

Knows the order in which a process opens its parts, and whom it tells. What commands make of it is
left to serve.py and dev.py, the sockets to listeners.py, the parts to wiring/, a service of several
processes to supervised.py."""

import asyncio
import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from content_gateway.cli import hangup, lockfile
from content_gateway.cli.service_manager import ServiceManager
from content_gateway.settings.model import Settings

if TYPE_CHECKING:
    from content_gateway.names.zone import ZoneFile

# What the first name needs, and nothing before it: 60 to 100 ms of CPU.
FIRST_NEEDED: Final = "Crypto.Hash.keccak"
# What a stop may take behind the drain: requests under way, then the databases.
_STOP_SECONDS: Final = 30.0
_NO_KEY: Final = (
    "Nobody has a key yet. Issue one, in another terminal and with the same settings:\n"
    "  content-gateway keys create --name NAME --scope resolve --scope pin"
)


async def serve(
    chosen: Settings,
    announce: Callable[[str], None],
    zones: "Sequence[ZoneFile]" = (),
    reread: Callable[[], Settings] | None = None,
) -> None:
    """The service until it is told to stop; *announce* gets its base URL once it listens.

    SIGHUP compares the settings with those that *reread* returns, or has workers take them; without
    it, it is a SIGTERM, and there is one process. Raises WrongSettings."""
    if chosen.workers > 1 and reread is not None:
        from content_gateway.cli import supervised

        await supervised.serve(chosen, announce, reread, without_keys=_NO_KEY)
        return
    manager = ServiceManager.take_from(os.environ)
    if reread is None:
        await _serve(chosen, announce, zones, manager, ends_at_hangup=True)
        return
    async with hangup.heard(chosen, reread, manager):
        await _serve(chosen, announce, zones, manager, ends_at_hangup=False)


async def _serve(
    chosen: Settings,
    announce: Callable[[str], None],
    zones: "Sequence[ZoneFile]",
    manager: ServiceManager,
    *,
    ends_at_hangup: bool,
) -> None:
    from content_gateway.cli.listeners import open_listeners
    from content_gateway.concurrency.garbage_collection import collect_seldom
    from content_gateway.http import admin
    from content_gateway.http.server import make_server
    from content_gateway.telemetry import logs
    from content_gateway.wiring.admin import admin_pages, views_of
    from content_gateway.wiring.app import opened
    from content_gateway.wiring.shared_limits import of_one_process

    # First of all: nobody puts another ledger in its place once it is open.
    with logs.unblocked(), lockfile.held(chosen, has_demo=bool(zones)):
        async with (
            opened(chosen, zones) as gateway,
            of_one_process(chosen.limits, gateway.limits) as store,
        ):
            listeners = open_listeners(chosen, os.environ)
            if chosen.keys.mode == "issued" and not await gateway.issued_keys.all():
                click.echo(_NO_KEY, err=True)
            await gateway.ledger.claim_backend(chosen.pins.backend)
            gateway.start()
            if chosen.ens.rpc_urls and not zones:  # the demonstration asks nobody unasked
                gateway.universal_resolver.start()

            def listening() -> None:
                announce(listeners.url)
                manager.ready(f"Listening on {listeners.url}")

            def ending() -> None:
                drain = chosen.admin.drain
                status = f"Draining for {drain:g} s" if drain else "Stopping"
                manager.stopping(status, drain + _STOP_SECONDS)

            server = make_server(
                gateway.api,
                connections=chosen.connections,
                is_local=chosen.keys.mode == "open",
                sites=gateway.hosts.suffixes,
                slow_rate=chosen.capacity.slow_rate,
                announce=listening,
                drain=chosen.admin.drain,
                on_drain=ending,
                inherited=listeners.is_inherited,
            )
            if ends_at_hangup:
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGHUP, server.handle_exit, signal.SIGTERM, None)
            collect_seldom()
            async with (
                views_of(gateway, chosen, server.server_state, store=store) as views,
                admin.served(admin_pages(views), listeners.admin),
                manager.watched(),
            ):
                with imported_beside(FIRST_NEEDED):
                    await server.serve(sockets=[listeners.service])


@contextmanager
def imported_beside(module: str) -> Iterator[None]:
    """Import *module* in a thread: neither the start nor the first who needs it waits for it."""
    thread = threading.Thread(target=importlib.import_module, args=(module,), name="import")
    thread.start()
    try:
        yield
    finally:
        thread.join()
