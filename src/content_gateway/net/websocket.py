"""The outbound WebSocket client: connections that an operator's server pushes messages through.

Each wait has a deadline and each message a cap; no redirect is followed, and no compression is
taken. Knows RFC 6455 through aiohttp; what a message says is left to the adapter that connected."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import aiohttp
import msgspec
import structlog
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, WSMsgType

from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.net.http_client import host_of

# A peer that has gone without a word is noticed after one and a half of these.
_HEARTBEAT_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 1.0
_SWITCHING_PROTOCOLS: Final = 101

log = structlog.get_logger(__name__)


class WebSocket:
    """An open connection; made by `connected`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, value: Any, *, seconds: float) -> None:
        """Send *value* as JSON; raises UpstreamTimeout and UpstreamUnavailable."""
        with _translated():
            async with asyncio.timeout(seconds):
                await self._socket.send_str(json.dumps(value))

    async def receive(self, *, seconds: float) -> dict[str, Any]:
        """The next message, a JSON object.

        Raises UpstreamTimeout where none comes within *seconds*, UpstreamUnavailable where the
        connection ends, InvalidUpstreamResponse for anything that is not such a message."""
        with _translated():
            async with asyncio.timeout(seconds):
                message = await self._socket.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            return _object(message.data)
        if isinstance(message.data, aiohttp.WebSocketError):
            raise InvalidUpstreamResponse("The server sent what is no WebSocket message.")
        raise UpstreamUnavailable("The server has ended the connection.")


@asynccontextmanager
async def connected(url: str, *, seconds: float, max_bytes: int) -> AsyncIterator[WebSocket]:
    """A connection to the operator's server at *url* (ws:// or wss://), opened within *seconds*;
    a message has *max_bytes* at most. Raises as WebSocket.receive."""
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "content-gateway"},
        trust_env=False,
        middlewares=(_upgraded,),
        max_line_size=8190,
        max_field_size=8190,
    ) as session:
        with _translated():
            async with asyncio.timeout(seconds):
                socket = await session.ws_connect(
                    url,
                    heartbeat=_HEARTBEAT_SECONDS,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    max_msg_size=max_bytes,
                    compress=0,
                )
        log.debug("a server was asked", host=host_of(url), outcome="connected")
        try:
            yield WebSocket(socket)
        finally:
            await socket.close()


async def _upgraded(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """The answer, if it is not one that would be followed elsewhere."""
    response = await handler(request)
    if response.status != _SWITCHING_PROTOCOLS:
        response.close()
        raise aiohttp.ClientConnectionError(f"answered {response.status}")
    return response


@contextmanager
def _translated() -> Iterator[None]:
    """Whatever goes wrong with a connection, in our words."""
    try:
        yield
    except TimeoutError as late:
        raise UpstreamTimeout("The server took too long.") from late
    except (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError) as wrong:
        raise InvalidUpstreamResponse("The server does not speak WebSocket.") from wrong
    except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as gone:
        raise UpstreamUnavailable("The server cannot be reached.") from gone


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidUpstreamResponse("The server sent what is no JSON.") from wrong
    if not isinstance(value, dict):
        raise InvalidUpstreamResponse("The server sent no JSON object.")
    return value
