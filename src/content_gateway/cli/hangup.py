"""SIGHUP for a service: its settings are read again, and what a restart would change is logged.

Knows that no setting is changed while the service runs. Denylists, the zone file and the API
description need no signal: they are read again where they change (files/watched_file.py)."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import structlog

from content_gateway.cli.service_manager import ServiceManager
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings, fields, value_of

log = structlog.get_logger(__name__)


@asynccontextmanager
async def heard(
    running: Settings, reread: Callable[[], Settings], manager: ServiceManager
) -> AsyncIterator[None]:
    """While entered, SIGHUP compares the *running* settings with what *reread* returns.

    *reread* may raise WrongSettings, and is called in a thread."""
    hangup = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    comparing = asyncio.create_task(_compare_each(hangup, running, reread, manager), name="SIGHUP")
    try:
        yield
    finally:
        comparing.cancel()
        with suppress(asyncio.CancelledError):
            await comparing


async def _compare_each(
    hangup: asyncio.Event,
    running: Settings,
    reread: Callable[[], Settings],
    manager: ServiceManager,
) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        manager.reloading()
        try:
            fresh = await asyncio.to_thread(reread)
        except WrongSettings as wrong:
            log.error("the settings are wrong now, a restart would fail", reason=wrong.detail)
        else:
            changed = differences(running, fresh)
            if changed:
                log.warning("settings have changed, a restart would take them", settings=changed)
            else:
                log.info("the settings were read again, and are those of the start")
        manager.reloaded()


def differences(one: Settings, other: Settings) -> list[str]:
    """The names of the settings that differ."""
    return [name for name, _ in fields() if value_of(one, name) != value_of(other, name)]
