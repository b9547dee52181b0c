"""The server: uvicorn with a protocol that no client can hold open, flood or confuse.

No Python server is safe bare (facts-edge section 1): this one bounds the head of a request in
bytes, fields and time, wants exactly one Host, closes behind anything that carries a body, and
lets what is under way finish when it stops. Knows HTTP/1.1 on the wire and nothing of what is
served."""

import asyncio
import re
import resource
import signal
import socket
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from content_gateway.api.problems import (
    BAD_REQUEST,
    LARGE_HEAD,
    LONG_PATH,
    SLOW_REQUEST,
    TOO_MANY_CONNECTIONS,
    Kind,
    body_of,
    headers_of,
)
from content_gateway.errors import WrongSettings
from content_gateway.telemetry import request_ids

BACKLOG: Final = 2_048


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one client may take: seconds, bytes and numbers.

    *drain* is how long what a client sent as we stopped may still arrive, *linger* how long a
    refused client may still read, *stop* how long a stop waits for requests under way."""

    head_seconds: float = 10.0
    head_bytes: int = 16 * 1024
    fields: int = 64
    path_bytes: int = 2048
    per_address: int = 2_000
    idle: int = 30
    linger: float = 1.0
    drain: float = 0.25
    stop: int = 15


# An encoded slash is part of a segment, not a border between two (RFC 3986 section 2.2). It
# travels to the router as a lone surrogate, which no decoded path can contain otherwise.
ENCODED_SLASH: Final = "\udc2f"
_ENCODED_SLASHES: Final = re.compile(rb"%2f", re.IGNORECASE)


class _Refused(Exception):
    """Raised inside the parser's callbacks, which turns it into an invalid request."""


class HardenedProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol, with bounds."""

    def __init__(
        self, *args: Any, bounds: Bounds, counts: Counter[str], ids: Iterator[str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False  # else uvicorn logs when any logging handler could listen
        self._bounds = bounds
        self._counts = counts  # open connections by address, of the whole server
        self._ids = ids
        self._refusal: Kind = BAD_REQUEST
        self._deadline: asyncio.TimerHandle | None = None
        self._address = ""
        self._head_bytes = 0  # parsed bytes of the head under way
        self._unparsed_bytes = 0  # received since the last complete head
        self._hosts = 0
        self._has_body = False
        self._in_head = False
        self._deaf = False  # nothing more is read from this client
        self._draining = False

    # -- the connection ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection and give its first request a deadline."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._counts[self._address] += 1
        if self._counts[self._address] > self._bounds.per_address:
            self._refuse(TOO_MANY_CONNECTIONS)
            return
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        self._counts[self._address] -= 1
        if not self._counts[self._address]:
            del self._counts[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and bound what has not become a complete head yet."""
        if self._deaf:
            return
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._deaf or self.transport.is_closing():
            return
        if not (self._in_head or self._is_idle()):
            self._disarm()
        elif self._unparsed_bytes > self._bounds.head_bytes:
            self._refuse(LARGE_HEAD)
        elif self._deadline is None:
            self._arm()

    def shutdown(self) -> None:
        """Answer what is under way or arrives in the next moment, then close."""
        self._draining = True
        if self._is_idle():
            self.loop.call_later(self._bounds.drain, self._close_if_idle)
        else:
            self.cycle.keep_alive = False

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _close_if_idle(self) -> None:
        if self._is_idle() and not self._in_head and not self.transport.is_closing():
            self.transport.close()

    # -- one request ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A head begins: count anew."""
        if self._deaf:
            self._stop(BAD_REQUEST)
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._hosts = 0
        self._has_body = False

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._head_bytes += len(url)
        if self._head_bytes > self._bounds.path_bytes:
            self._stop(LONG_PATH)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field."""
        self._head_bytes += len(name) + len(value)
        too_large = self._head_bytes > self._bounds.head_bytes
        if too_large or len(self.headers) >= self._bounds.fields:
            self._stop(LARGE_HEAD)
        super().on_header(name, value)
        name = self.headers[-1][0]
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
            self._has_body = True

    def on_headers_complete(self) -> None:
        """The head is whole: check what only the whole shows, and start the request."""
        self._in_head = False
        self._unparsed_bytes = 0
        if self._hosts > 1 or (self._hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._stop(BAD_REQUEST)
        super().on_headers_complete()
        raw_path = self.scope["raw_path"]
        if b"%" in raw_path and _ENCODED_SLASHES.search(raw_path):
            kept = _ENCODED_SLASHES.sub(b"\n", raw_path).decode("ascii")
            self.scope["path"] = ENCODED_SLASH.join(unquote(part) for part in kept.split("\n"))
        if self._has_body:
            # No operation takes a body: answer, let the client read that, and hang up. What
            # follows the head is never parsed as another request (request smuggling).
            self._deaf = True
            self.cycle.keep_alive = False
            self.cycle.transport = self._lingering()  # type: ignore[assignment]
        elif self.parser.should_upgrade():
            self._deaf = True  # we speak HTTP/1.1 only: answer in it, and hang up
            self.cycle.keep_alive = False
        elif self._draining:
            self.cycle.keep_alive = False

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: any client could fill the log."""

    # -- refusals ---------------------------------------------------------------------------

    def _stop(self, kind: Kind) -> None:
        """End parsing; the parser reports an invalid request, which send_400_response answers."""
        self._refusal = kind
        raise _Refused(kind.code)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not take, with the reason noted on the way."""
        self._refuse(self._refusal)

    def _refuse(self, kind: Kind) -> None:
        """Answer with a problem and hang up, behind any answer that is still under way."""
        self._disarm()
        self._deaf = True
        if not self._is_idle():
            self.cycle.keep_alive = False
            return
        if self.transport.is_closing():
            return
        request_id = next(self._ids)
        body = body_of(kind, kind.detail, request_id)
        lines = [STATUS_LINE[kind.status]]
        fields = [*headers_of(kind, request_id), (b"content-length", str(len(body)).encode())]
        lines += [name + b": " + value + b"\r\n" for name, value in fields]
        self.transport.write(b"".join([*lines, b"\r\n", body]))
        self._lingering().close()

    def _lingering(self) -> "_Lingering":
        return _Lingering(self.transport, self._bounds.linger)

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self._bounds.head_seconds, self._too_late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._refuse(SLOW_REQUEST)


class _Lingering:
    """A transport whose close lets the client read the answer first.

    Closing a socket with unread bytes resets it, and the reset can overtake the answer (RFC
    9112 section 9.6): so the sending side is closed first, the rest a moment later."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds

    def write(self, data: bytes) -> None:
        """As the transport's."""
        self._transport.write(data)

    def is_closing(self) -> bool:
        """As the transport's."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Half-close now, close soon."""
        if self._transport.is_closing():
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(self._seconds, self._transport.close)


class Server(uvicorn.Server):
    """uvicorn, stopped by SIGTERM or SIGINT without ending the process behind our back."""

    owns_signals = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Turn the signals into a graceful stop; the caller closes everything else afterwards."""
        if not self.owns_signals:
            yield
            return
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT)
        for number in handled:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners first, then answer what had come in until then, then return."""
        listeners = [listener.dup() for listener in sockets or []]
        for server in self.servers:
            server.close()
        await asyncio.sleep(0.01)  # the loop lets go of its own copies
        for listener in listeners:
            await self._take_in(listener)
        await super().shutdown(sockets)

    async def _take_in(self, listener: socket.socket) -> None:
        """Accept what the kernel has accepted for us; closing the listener would reset that."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        with listener:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # nobody is left
                    return
                await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        made = protocol(config=self.config, server_state=self.server_state, app_state={})
        return cast(asyncio.Protocol, made)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises WrongSettings when the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as wrong:
        raise WrongSettings(f"host, port: cannot listen on {host}:{port}: {wrong}") from wrong


def make_server(app: Any, bounds: Bounds | None = None) -> Server:
    """A server for the ASGI application *app*; run it with `serve(sockets=[listen(...)])`."""
    bounds = bounds or Bounds()
    _raise_file_limit()
    protocol: Any = partial(HardenedProtocol, bounds=bounds, counts=Counter(), ids=request_ids())
    return Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=bounds.idle,
            timeout_graceful_shutdown=bounds.stop,
        )
    )


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
