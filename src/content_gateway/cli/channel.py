"""The channel between the supervisor and one worker: a socket pair, with messages and questions.

Each message is a length and a pickle, which is as good as the two processes are: both run this
version of the program as one user, and nobody else has an end of the pair. What is told and asked
is left to supervisor.py and worker.py."""

import asyncio
import pickle
import struct
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final, Literal, TypeAlias

import structlog

_LENGTH: Final = struct.Struct("!I")
# Bytes that wait for a process that does not read: what it is only told is then lost.
_MOST_UNREAD: Final = 1024 * 1024

Kind: TypeAlias = Literal["told", "asked", "answered"]

log = structlog.get_logger(__name__)


class ChannelClosed(Exception):
    """The process at the other end is gone, or did not answer."""


class Channel(asyncio.Protocol):
    """One end. *told* gets each message, *answers* have what the other end may ask, by name; *lost*
    is called when the other end is closed."""

    def __init__(
        self,
        told: Callable[[str, Any], None],
        answers: Mapping[str, Callable[[], Awaitable[Any]]],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._told = told
        self._answers = answers
        self._lost = lost
        self._received = bytearray()
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        """No question has an answer any more."""
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ChannelClosed())
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Take what has come whole."""
        received = self._received
        received += data
        while len(received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
            if len(received) < end:
                break
            frame = bytes(received[_LENGTH.size : end])
            del received[:end]
            self._take(*pickle.loads(frame))  # noqa: S301 - of our own other end

    def tell(self, what: str, value: Any = None) -> None:
        """Say *what*, with *value*; lost where the other end has not read for long, or is gone."""
        is_open = not self._transport.is_closing()
        if is_open and self._transport.get_write_buffer_size() < _MOST_UNREAD:
            self._send("told", 0, what, value)

    async def ask(self, what: str, seconds: float) -> Any:
        """The answer to *what*; raises ChannelClosed where there is none in so many *seconds*."""
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send("asked", number, what, None)
            async with asyncio.timeout(seconds):
                return await asked
        except TimeoutError as late:
            raise ChannelClosed from late
        finally:
            del self._asked[number]

    def close(self) -> None:
        """Close this end, once what was told has been sent."""
        self._transport.close()

    def _send(self, kind: Kind, number: int, what: str, value: Any) -> None:
        frame = pickle.dumps((kind, number, what, value), pickle.HIGHEST_PROTOCOL)
        if not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(frame)) + frame)

    def _take(self, kind: Kind, number: int, what: str, value: Any) -> None:
        if kind == "told":
            self._told(what, value)
        elif kind == "asked":
            task = asyncio.create_task(self._answer(number, what), name=f"answer {what}")
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif (asked := self._asked.get(number)) is not None and not asked.done():
            asked.set_result(value)

    async def _answer(self, number: int, what: str) -> None:
        try:
            self._send("answered", number, what, await self._answers[what]())
        except Exception as error:  # who asked hears nothing, and goes on without
            log.error("a worker could not tell of itself", what=what, exc_info=error)
