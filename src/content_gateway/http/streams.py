"""Large and streamed answers: sent as they are read, and never ended as if they were whole.

Knows how a stream ends: well, because the client has gone or reads too slowly, or because what
makes it has failed; then the connection is broken off, so that half an answer cannot be taken for
all of it. So many are sent at once, fairly by client: each may hold some megabytes, of ours and of
the kernel's, until its client has read them. What is streamed is left to the handlers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import GatewayError
from content_gateway.http.bodies import Receive
from content_gateway.http.messages import LARGE_BODY, ResponseStream, address_of
from content_gateway.http.problems import OLD_HTTP, HttpRefusal
from content_gateway.http.protocol import CONNECTION, Connection

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGE_ANSWERS: Final = 48
_WAITING: Final = 256
_PIECE: Final = 64 * 1024
_LONGEST_LOOK: Final = 0.25  # seconds between two looks at what is still unread

log = structlog.get_logger(__name__)


def large_answers(most: int = LARGE_ANSWERS) -> FairSemaphore:
    """The large answers that are sent at once, at most so many; by key, or by address."""
    return FairSemaphore(
        most, waiting=_WAITING, detail="Too many large answers are being read; ask again soon."
    )


class _SlowReader(Exception):
    """The client takes less than it must."""


class _SendRate:
    """How long a client may keep its answer waiting.

    At most `Bounds.slow_seconds`; what it takes earns it time, a second for each
    `Bounds.slow_rate` bytes. Only waiting for the client counts, not what we take to go on."""

    def __init__(self, connection: Connection) -> None:
        bounds = connection.bounds
        self._most, self._rate = bounds.slow_seconds, bounds.slow_rate
        self._connection = connection
        self._left = self._most

    async def send(self, send: Send, data: bytes) -> None:
        """Send *data* in pieces, each when the one before is on its way; raises _SlowReader."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            piece = bytes(view[start : start + _PIECE])
            begun = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(self._left):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError as late:
                raise _SlowReader from late
            self._count(begun, len(piece))
            if self._connection.is_closing():
                return

    async def all_taken(self) -> None:
        """Wait until little of the answer is left unread; raises _SlowReader."""
        look, unread = 0.001, self._connection.unread()
        while unread > LARGE_BODY:
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(look)
            look = min(2 * look, _LONGEST_LOOK)
            before, unread = unread, self._connection.unread()
            self._count(begun, max(0, before - unread))
            if self._left <= 0:
                raise _SlowReader

    def _count(self, begun: float, taken: int) -> None:
        waited = asyncio.get_running_loop().time() - begun
        self._left = min(self._most, self._left - waited + taken / self._rate)


async def send_stream(
    stream: ResponseStream,
    request_id: str,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Send *stream*; what goes wrong before its first chunk is raised, and later ends it.

    A slow reader is waited for after every piece: one chunk is kept in memory, and no more; one
    that is too slow is cut off."""
    connection: Connection = scope["state"][CONNECTION]
    try:
        has_length = any(name == b"content-length" for name, _ in stream.headers)
        if scope["http_version"] == "1.0" and not has_length:
            raise HttpRefusal(OLD_HTTP)  # it has no way to tell half an answer from a whole one
        chunk = await anext(stream.chunks, None)
        headers = [*stream.headers, (b"x-request-id", request_id.encode())]
        await send({"type": "http.response.start", "status": stream.status, "headers": headers})
        connection.widen(True)
        try:
            await _send_chunks(chunk, stream, connection, send)
        except Exception as error:
            if isinstance(error, _SlowReader):
                address = address_of(scope)
                log.info("a slow reader was cut off", request_id=request_id, address=address)
            elif isinstance(error, GatewayError):  # what it is made of is not there any more
                log.info("a stream broke off", request_id=request_id, reason=error.detail)
            else:
                log.error("a stream broke off", request_id=request_id, exc_info=error)
            connection.break_off()
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            connection.widen(False)
    finally:
        await _close(stream.chunks)
        stream.done()


async def _send_chunks(
    chunk: bytes | None, stream: ResponseStream, connection: Connection, send: Send
) -> None:
    """Send *chunk* and what follows it, and wait until it was taken; raises _SlowReader and what
    making it raises."""
    pace = _SendRate(connection)
    while chunk is not None:
        await pace.send(send, chunk)
        if connection.is_closing():
            return
        chunk = await anext(stream.chunks, None)
    await send({"type": "http.response.body", "body": b""})
    await pace.all_taken()


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Let *chunks* end what it holds, if it is a generator."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
