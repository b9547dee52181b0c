"""Streamed answers: sent while they are made, and never ended as if they were whole.

Knows how a stream ends: well, because the client has gone, or because what makes it has failed;
then the connection is broken off, so that half an answer cannot be taken for all of it. What is
streamed is left to the handlers."""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import structlog

from content_gateway.api.bodies import Receive
from content_gateway.api.call import Stream
from content_gateway.api.problems import OLD_HTTP, Refused
from content_gateway.api.protocol import CONNECTION, Connection
from content_gateway.errors import GatewayError

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = structlog.get_logger(__name__)


async def send_stream(
    stream: Stream,
    request_id: str,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Send *stream*; what goes wrong before its first chunk is raised, and later ends it.

    A slow reader is waited for after every chunk: one is kept in memory, and no more."""
    chunks = stream.chunks
    connection: Connection = scope["state"][CONNECTION]
    try:
        if scope["http_version"] == "1.0":
            raise Refused(OLD_HTTP)  # it has no way to tell half an answer from a whole one
        chunk = await anext(chunks, None)
        headers = [*stream.headers, (b"x-request-id", request_id.encode())]
        await send({"type": "http.response.start", "status": stream.status, "headers": headers})
        try:
            while chunk is not None and not connection.is_closing():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await anext(chunks, None)
        except Exception as error:
            if isinstance(error, GatewayError):  # what it is made of is not there any more
                log.info("a stream broke off", request_id=request_id, reason=error.detail)
            else:
                log.error("a stream broke off", request_id=request_id, exc_info=error)
            connection.break_off()
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        await send({"type": "http.response.body", "body": b""})
    finally:
        await _close(chunks)


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Let *chunks* end what it holds, if it is a generator."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
