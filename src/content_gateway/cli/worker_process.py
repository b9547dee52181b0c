"""One worker as its supervisor sees it: a process, and the channel to it.

Knows how it is started (as a program of its own: a fork would inherit threads and an event loop),
that it must say that it is ready, and that one whose event loop stands still is killed. When there
is to be one is left to supervisor.py."""

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from content_gateway.cli.channel import Channel, ChannelClosed
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings

# A worker answers in milliseconds; one that has missed so many in a row stands still for good.
_PULSE_SECONDS: Final = 5.0
_MOST_MISSED: Final = 6
_LAST_WORDS_SECONDS: Final = 1.0
_MODULE: Final = "content_gateway.cli.worker"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Charge:
    """What a worker is told first: its *settings*, whether it is the first of its generation, and
    what keys have used by then (`SharedCounts.counts`). The listener of one that *is_inherited*
    stays open when the service ends."""

    settings: Settings
    is_inherited: bool
    is_first: bool
    counts: Any = None


class WorkerProcess:
    """A started process; *told* gets all that it says, with the worker."""

    def __init__(self, told: Callable[["WorkerProcess", str, Any], None]) -> None:
        self._told = told
        self.is_leaving = False
        self.started = asyncio.get_running_loop().time()
        self.ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.channel: Channel
        self._is_closed = asyncio.Event()  # the channel, of which all was read
        self._process: asyncio.subprocess.Process
        self._watch: asyncio.Task[None]
        self._gone: asyncio.Task[int]

    @classmethod
    async def start(
        cls,
        charge: Charge,
        listener: socket.socket,
        told: Callable[["WorkerProcess", str, Any], None],
    ) -> "WorkerProcess":
        """A process that begins to serve *listener*; see `until_ready`."""
        worker = cls(told)
        ours, theirs = socket.socketpair()
        with theirs:
            handed = (theirs.fileno(), listener.fileno())
            worker._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_flags(),
                "-m",
                _MODULE,
                *map(str, handed),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=handed,
                start_new_session=True,  # Ctrl-C is for the supervisor
            )
        loop = asyncio.get_running_loop()
        _, worker.channel = await loop.create_connection(
            lambda: Channel(worker._hear, {}, worker._is_closed.set), sock=ours
        )
        worker.channel.tell("charge", charge)
        worker._watch = asyncio.create_task(worker._keep_watch(), name=f"watch {worker.pid}")
        worker._gone = asyncio.create_task(worker._end(), name=f"end of {worker.pid}")
        return worker

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def is_serving(self) -> bool:
        """Whether it takes requests."""
        is_ready = self.ready.done() and self.ready.exception() is None
        return is_ready and not self.is_leaving and self._process.returncode is None

    async def until_ready(self) -> Any:
        """What it says once it takes requests; raises WrongSettings where it ends before."""
        await asyncio.wait((self.ready, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if not self.ready.done():
            raise WrongSettings(f"a worker ended with status {self._gone.result()} at its start")
        return self.ready.result()

    def leave(self, *, listener_stays: bool) -> None:
        """Have it answer what is under way, and end."""
        self.is_leaving = True
        self.channel.tell("stop", listener_stays)

    @property
    def failure(self) -> str | None:
        """Why it could not start, in its own words; None where it said nothing."""
        failed = self.ready.exception() if self.ready.done() else None
        return None if failed is None else str(failed)

    async def ended(self) -> int:
        """Its exit status, once it has ended, and all that it said was heard; negative where a
        signal ended it."""
        return await asyncio.shield(self._gone)

    async def end_by(self, seconds: float) -> None:
        """Wait until it has ended; it is killed after so many *seconds*."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended()
        except TimeoutError:
            log.error("a worker did not end in time, and is killed", pid=self.pid)
            self.kill()
            await self.ended()

    def kill(self) -> None:
        """End it now."""
        self.is_leaving = True
        if self._process.returncode is None:
            self._process.kill()

    def _hear(self, what: str, value: Any) -> None:
        if what == "ready" and not self.ready.done():
            self.ready.set_result(value)
        elif what == "failed" and not self.ready.done():
            self.ready.set_exception(WrongSettings(value))
        else:
            self._told(self, what, value)

    async def _end(self) -> int:
        status = await self._process.wait()
        self._watch.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._is_closed.wait()
        self.channel.close()
        return status

    async def _keep_watch(self) -> None:
        missed = 0
        await asyncio.wait((self.ready,))
        while missed < _MOST_MISSED:
            await asyncio.sleep(_PULSE_SECONDS)
            try:
                await self.channel.ask("pulse", _PULSE_SECONDS)
                missed = 0
            except ChannelClosed:
                missed += 1
        if self._process.returncode is None:
            log.error("a worker stands still, and is killed", pid=self.pid)
            self._process.kill()


def _flags() -> list[str]:
    """Look for the package where this process has found it, and else not in the current folder."""
    return [] if sys.modules["__main__"].__spec__ else ["-P"]
