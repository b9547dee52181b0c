"""Large and streamed answers: sent no faster than the client reads, and reset if incomplete.

Knows the three ends of a stream: complete; the client has gone or reads too slowly; its source has
failed. In the last two the connection is reset, so that no client takes half an answer for a whole
one. The number sent at once is limited, fairly by client, since each may hold some megabytes of our
memory and the kernel's until its client has read them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import GatewayError
from content_gateway.http.asgi_extensions import CONNECTION, Connection
from content_gateway.http.bodies import Receive
from content_gateway.http.header_block import fields_of
from content_gateway.http.kinds import OLD_HTTP
from content_gateway.http.messages import LARGE_BODY, ResponseStream, address_of
from content_gateway.http.problems import HttpRefusal

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGE_ANSWERS: Final = 48
_WAITING: Final = 256
_PIECE: Final = 64 * 1024
_LONGEST_PAUSE: Final = 0.25  # seconds between two checks of how much is unread

log = structlog.get_logger(__name__)


def large_answers(
    most: int = LARGE_ANSWERS, limit_of: Callable[[str], int] | None = None
) -> FairSemaphore:
    """The permits for large answers: *most* at the same time, shared by key or by address.

    *limit_of* is how many of them one may have, 0: its share."""
    return FairSemaphore(
        most,
        waiting=_WAITING,
        detail="Too many large answers are being read; ask again soon.",
        limit_of=limit_of,
    )


class _SlowReader(Exception):
    """The client has used up the time that its answer may wait for it."""


class _SendRate:
    """The time for which an answer may still wait for its client.

    `ClientLimits.slow_seconds` at most; reading `slow_rate` bytes adds a second. Only waiting for
    the client counts, not the time we need to make the next chunk."""

    def __init__(self, connection: Connection) -> None:
        bounds = connection.bounds
        self._most, self._rate = bounds.slow_seconds, bounds.slow_rate
        self._connection = connection
        self._left = self._most

    async def send(self, send: Send, data: bytes) -> None:
        """Send *data* in pieces, each after the one before has left our buffer.

        Raises _SlowReader. Returns early once the connection is closing."""
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

    async def wait_until_read(self) -> None:
        """Wait until at most LARGE_BODY bytes of the answer are unread; raises _SlowReader."""
        pause, unread = 0.001, self._connection.unread()
        while unread > LARGE_BODY:
            begun = asyncio.get_running_loop().time()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            before, unread = unread, self._connection.unread()
            self._count(begun, max(0, before - unread))
            if self._left <= 0:
                raise _SlowReader

    def _count(self, begun: float, read: int) -> None:
        """Subtract the time since *begun*, and add what *read* bytes earn."""
        waited = asyncio.get_running_loop().time() - begun
        self._left = min(self._most, self._left - waited + read / self._rate)


async def send_stream(
    stream: ResponseStream,
    shared: bytes,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
    *,
    request_id: str,
) -> bool:
    """Send *stream*, one chunk in memory at a time, and return whether its client has had all of
    it; its fields are its own and the *shared* ones, whose lines are given.

    An error before the first chunk is raised, since an error answer can still be sent; a later one
    resets the connection, as does a client that reads too slowly. Closes *stream* in the end."""
    connection: Connection = scope["state"][CONNECTION]
    try:
        has_length = any(name == b"content-length" for name, _ in stream.headers)
        if scope["http_version"] == "1.0" and not has_length:
            # HTTP/1.0 has no chunked coding: its client could not tell half an answer from a whole.
            raise HttpRefusal(OLD_HTTP)
        chunk = await anext(stream.chunks, None)
        headers = [*stream.headers, *fields_of(shared)]
        await send({"type": "http.response.start", "status": stream.status, "headers": headers})
        connection.use_large_buffer(True)
        try:
            return await _send_chunks(chunk, stream, connection, send)
        except Exception as error:
            if isinstance(error, _SlowReader):
                address = address_of(scope)
                log.info("a slow reader was cut off", request_id=request_id, address=address)
            elif isinstance(error, GatewayError):  # its source failed, as a block that is gone
                log.info("a stream broke off", request_id=request_id, reason=error.detail)
            else:
                log.error("a stream broke off", request_id=request_id, exc_info=error)
            connection.reset()
            # uvicorn logs an error where an application ends before its answer does.
            while (await receive())["type"] != "http.disconnect":
                pass
            return False
        finally:
            connection.use_large_buffer(False)
    finally:
        await _close(stream.chunks)
        stream.done()


async def _send_chunks(
    chunk: bytes | None, stream: ResponseStream, connection: Connection, send: Send
) -> bool:
    """Send *chunk* and those after it, and wait until they were read; False if the client left.

    Raises _SlowReader, and what the stream raises."""
    rate = _SendRate(connection)
    while chunk is not None:
        await rate.send(send, chunk)
        if connection.is_closing():
            return False
        chunk = await anext(stream.chunks, None)
    await send({"type": "http.response.body", "body": b""})
    await rate.wait_until_read()
    return True


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Close *chunks* if it is a generator, so that it releases what it holds."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
