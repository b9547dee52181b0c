"""The service manager, told how the service is: systemd's notification protocol (sd_notify(3)).

Knows the datagrams and the watchdog (sd_watchdog_enabled(3)). When there is something to tell is
left to serving.py; without a service manager nothing is sent."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

_SEND_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class ServiceManager:
    """The one that started this process; it listens at *address*, or not at all.

    An address that begins with `@` is an abstract one (unix(7)). *watchdog* is
    after how many seconds of silence it kills the service; 0: never."""

    def __init__(self, address: str | None = None, watchdog: float = 0.0) -> None:
        self._address = address
        self._watchdog = watchdog
        self._status: str | None = None  # while the service takes requests

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> "ServiceManager":
        """As *environ* has it. Its variables are taken out: they are not for our children."""
        address = environ.pop("NOTIFY_SOCKET", None)
        microseconds = environ.pop("WATCHDOG_USEC", "")
        is_ours = environ.pop("WATCHDOG_PID", "") in ("", str(os.getpid()))
        seconds = int(microseconds) / 1e6 if is_ours and microseconds.isdecimal() else 0.0
        return cls(address or None, seconds)

    def ready(self, status: str) -> None:
        """The service takes requests; *status* is for people."""
        self._status = status
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """The service reads its settings again; to be followed by `reloaded`."""
        if self._status is not None:
            # Type=notify-reload compares the time with that of its own signal (CLOCK_MONOTONIC).
            self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """The service has read its settings again."""
        if self._status is not None:
            self._send("READY=1")

    def stopping(self, status: str, seconds: float) -> None:
        """The service is on its way to the end, for *seconds* at most; *status* is for people."""
        self._status = None
        self._send("STOPPING=1", f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={seconds * 1e6:.0f}")

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While entered, the watchdog hears of us, as long as the event loop turns."""
        if self._address is None or not self._watchdog:
            yield
            return
        telling = asyncio.create_task(self._tell(), name="watchdog")
        try:
            yield
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling

    async def _tell(self) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog / 2)  # as sd_watchdog_enabled(3) recommends

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        name = self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_SEND_SECONDS)
                sender.connect("\0" + name[1:] if name.startswith("@") else name)
                sender.send("\n".join(lines).encode())
        except (OSError, ValueError) as failed:
            log.warning("the service manager cannot be told", address=name, reason=str(failed))
