"""The HTTP/1.1 protocol: uvicorn's httptools protocol with limits for hostile clients.

Limits a request's head in bytes, fields and time, requires exactly one Host field, reads small
bodies only and closes the connection after any other; without these any client can exhaust a
Python server (docs/facts/edge.md, A bare server). Knows HTTP on the wire; routes and answers are
left to asgi.py, sockets to lingering_close.py."""

import asyncio
from collections import Counter
from typing import Any, Final, Protocol
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from content_gateway.http import kinds, problems
from content_gateway.http.connections import Connections
from content_gateway.http.header_block import block_of
from content_gateway.http.limits import ClientLimits
from content_gateway.http.lingering_close import LingeringTransport
from content_gateway.http.request_head import too_large, wrong_host, wrong_version
from content_gateway.telemetry.request_ids import request_ids

# An encoded slash is part of a segment and separates none (RFC 3986 section 2.2). In the scope's
# path it is this lone surrogate, which decoding UTF-8 can never produce.
ENCODED_SLASH: Final = "\udc2f"
# The ASGI extension that is present if the request has a body. Its "length" is that of
# Content-Length, None without one. A body of up to MAX_BODY_BYTES comes whole in one `receive`.
SENT_BODY: Final = "content_gateway.sent_body"
MAX_BODY_BYTES: Final = 64 * 1024
# In other methods a body has no defined meaning (RFC 9110 section 9.3), and proxies disagree about
# where it ends, which is what request smuggling uses.
_WITH_BODIES: Final = frozenset((b"POST", b"PUT", b"PATCH"))
_KNOWN_HOSTS: Final = 100
# Keys of `scope["state"]`: the Connection, and HardenedProtocol.answer.
_CLOSE: Final = b"connection: close\r\n"
CONNECTION: Final = "content_gateway.connection"
ANSWER: Final = "content_gateway.answer"


class Connection(Protocol):
    """What an application may ask of the connection that it answers on."""

    bounds: ClientLimits

    def unread(self) -> int:
        """How many bytes were sent that the client has not acknowledged."""

    def use_large_buffer(self, is_large: bool, /) -> None:
        """Set the size of the kernel's send buffer: for a large answer, or the usual one."""

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""

    def reset(self) -> None:
        """Close it by a TCP reset, so that no client takes half an answer for a whole one."""


class SharedState(ServerState):
    """What all connections of one server share."""

    def __init__(self, bounds: ClientLimits) -> None:
        super().__init__()
        self.bounds = bounds
        self.open_by_address: Counter[str] = Counter()
        self.open_connections = Connections(bounds.connections)
        self.request_ids = request_ids()
        self.is_draining = False  # requests are answered as ever, and the end is near
        self.is_stopping = False
        self.problems: Counter[str] = Counter()  # refusals of this file, by their code
        self.hosts: set[bytes] = set()  # values of Host that passed `wrong_host`
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._default_block = b""

    @property
    def default_block(self) -> bytes:
        """The lines of the fields that every answer has; uvicorn makes a new list each second."""
        if self.default_headers is not self._default_headers:
            self._default_headers = self.default_headers
            self._default_block = block_of(self._default_headers)
        return self._default_block


class HardenedProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol, with limits.

    Theory of operation. The parser gets one head at a time, and the next one only after the
    answer, so requests do not pile up; what is received meanwhile is one read at most, then reading
    is paused. The parser never sees a body: `_take_body` counts its bytes. Bytes behind a body that
    come before the answer end the connection instead of being parsed (request smuggling).

    A connection is idle (between two requests), or a request of it is under way from
    `on_headers_complete` to `on_response_complete`. Once `_ignores_input` is set, nothing received
    is parsed any more; only the rest of a body is still taken."""

    server_state: SharedState
    transport: LingeringTransport  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False  # uvicorn logs each request where any handler is configured
        self.url = b""  # uvicorn sets it at a request's first byte; a refusal may come before
        self._bounds = self.server_state.bounds
        self._received = b""  # from the first byte of the head that is being received
        self._parsed = 0  # how many bytes of it the parser has
        self._is_idle = True  # no request is under way
        self._awaits_head = False  # the deadline of a head runs, not the idle timeout
        self._ignores_input = False
        self._body_left = 0  # bytes of the body that have not come
        self._keeps_alive = False  # the connection is kept if the body comes whole and alone

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, refuse it above a limit, and start the first head's deadline."""
        super().connection_made(transport)
        self.transport = LingeringTransport(transport, self.flow, self._bounds)
        self.app_state = {CONNECTION: self.transport, ANSWER: self.answer}  # scope["state"]
        self._await_head()
        self._address = self.client[0] if self.client else ""
        self.server_state.open_by_address[self._address] += 1
        has_room = self.server_state.open_connections.add(self, self.transport.descriptor)
        if not has_room or (
            self.server_state.open_by_address[self._address] > self._bounds.per_address
        ):
            self._refuse(kinds.TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        self.server_state.open_connections.remove(self)
        self.server_state.open_by_address[self._address] -= 1
        if not self.server_state.open_by_address[self._address]:
            del self.server_state.open_by_address[self._address]
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has been received, head by head, until a request is under way.

        Also called with b"" after an answer, for what was received before it was sent."""
        if self._ignores_input or self.transport.is_closed:
            if self._body_left:
                self._take_body(data)
            elif not self._is_idle:
                # Bytes behind the last request, or behind its body, are never parsed as a request.
                self.cycle.keep_alive = False
            return
        self._received += data
        while self._received and self._is_idle:
            end = self._received.find(b"\r\n\r\n") + 4  # 3 where the end has not come
            size = end if end > 3 else len(self._received)
            most = self._bounds.head_bytes
            try:
                # Only what is new of this head: the parser keeps the rest, and a body or the next
                # head must not reach it before this one was checked.
                self.parser.feed_data(self._received[self._parsed : size if size < most else most])
            except (HttpParserError, HttpParserUpgrade):
                # Under way already: the parser stops at an upgrade, which a server may ignore and
                # answer as HTTP/1.1 (RFC 9110 section 7.8). Our own refusals in
                # `on_headers_complete` come as HttpParserError too, and are sent already.
                if self._is_idle:
                    self._refuse(wrong_version(self._received) or kinds.BAD_REQUEST)
            if size > most:
                self._refuse(too_large(self.url, self._bounds.path_bytes))
            elif end < 4:  # the head goes on with the next read
                self._parsed = size
                break
            self._parsed = 0
            # Behind a head: its body, or a pipelined request, which waits for the answer.
            rest = self._received[size:]
            self._received = b"" if self._ignores_input else rest
            if self._body_left:
                self._take_body(rest)
        if self._received and not self._is_idle:
            # A pipelined request: the client's kernel keeps the others until this is answered.
            self.flow.pause_reading()
        elif self._is_idle and not self._awaits_head:
            self._timer.cancel()
            self._await_head()

    def on_headers_complete(self) -> None:
        """Check the whole head, and start the request.

        Raises what `_refuse` returns, which stops the parser; the refusal has been sent then."""
        fields, number = dict(self.headers), len(self.headers)
        most = self._bounds.path_bytes  # the path only; a query may be as long as the head
        if len(self.url) > most and len(self.url.partition(b"?")[0]) > most:
            raise self._refuse(kinds.LONG_PATH)
        if number > self._bounds.fields:
            raise self._refuse(kinds.LARGE_HEAD)
        # Two Host fields are refused (RFC 9112 section 3.2). Fewer names than fields: some repeat.
        if number > len(fields) and [name for name, _ in self.headers].count(b"host") > 1:
            raise self._refuse(kinds.BAD_REQUEST)
        if (wrong := wrong_version(self._received)) is not None:
            raise self._refuse(wrong)
        host = fields.get(b"host")
        if host is None and self.parser.get_http_version() != "1.0":
            raise self._refuse(kinds.BAD_REQUEST)
        # Clients send the same few hosts, so those that passed are remembered, a hundred at most.
        if host is not None and host not in self.server_state.hosts:
            if (wrong := wrong_host(host, is_local=self._bounds.is_local)) is not None:
                raise self._refuse(wrong)
            if len(self.server_state.hosts) < _KNOWN_HOSTS:
                self.server_state.hosts.add(host)
        super().on_headers_complete()
        self._is_idle = False
        self.server_state.open_connections.mark_busy(self)
        if b"%" in self.url:
            # uvicorn has decoded the path with its encoded slashes: decode each segment again.
            segments = self.scope["raw_path"].decode().replace("%2F", "%2f").split("%2f")
            self.scope["path"] = ENCODED_SLASH.join(map(unquote, segments))
        if self.server_state.is_stopping or self.parser.should_upgrade():
            self.cycle.keep_alive = False
        length = fields.get(b"content-length")  # the parser refuses a second one
        if (length and length.strip(b"0")) or b"transfer-encoding" in fields:
            self._expect_body(fields)
        # What follows the last request, or a body, is never parsed as another (request smuggling).
        self._ignores_input = not self.cycle.keep_alive

    def _expect_body(self, fields: dict[bytes, bytes]) -> None:
        """Prepare for a body: it is read if it is small and has a Content-Length.

        Any other is not read at all: the application refuses it, and the connection closes."""
        length = None if b"transfer-encoding" in fields else int(fields[b"content-length"])
        self.scope["extensions"] = {SENT_BODY: {"length": length}}
        is_plain = self.scope["http_version"] == "1.1" and self.parser.get_method() in _WITH_BODIES
        self._keeps_alive = is_plain and self.cycle.keep_alive
        self.cycle.keep_alive = False  # until the body is whole (`_take_body`)
        self._body_left = length if length and length <= MAX_BODY_BYTES else 0
        if not self._body_left:
            self.cycle.more_body = False
            self.cycle.message_event.set()
        if not self._body_left or self.scope["http_version"] == "1.0":
            # No "100 Continue" for a body that is not read, nor to HTTP/1.0 (RFC 9110, 10.1.1).
            self.cycle.waiting_for_100_continue = False

    def _take_body(self, data: bytes) -> None:
        """Add *data* to the body; the application receives it once it is whole."""
        behind = len(data) - self._body_left
        self.cycle.body += data[: self._body_left]
        self._body_left = max(0, -behind)
        if not self._body_left:
            # Bytes behind the body may be a smuggled request; and a client that was answered early
            # may have stopped sending anywhere in the body. Neither connection is used again.
            is_answered = self.cycle.response_started
            self.cycle.keep_alive = self._keeps_alive and not behind and not is_answered
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def answer(self, status: int, block: bytes, body: bytes) -> bool:
        """Send the whole answer to the request under way; *block* has the lines of its fields,
        Content-Length among them (header_block.py).

        False, and nothing is sent, if the client is gone, or its buffer is full and the caller must
        wait with ASGI's `send`. Two calls of that took a sixth of the time of a small answer."""
        cycle = self.cycle
        if cycle.disconnected or cycle.response_started or self.flow.write_paused:
            return False
        end = b"\r\n"
        if _CLOSE in block:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            end = _CLOSE + end
        sent = b"" if self.scope["method"] == "HEAD" else body
        every = self.server_state.default_block
        self.transport.send(b"".join((STATUS_LINE[status], every, block, end, sent)))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def on_response_complete(self) -> None:
        """Wait for the next request, or parse what was received of it before the answer."""
        self.transport.flush()
        self.server_state.total_requests += 1
        self._is_idle, self._awaits_head = True, False
        if self._keeps_alive and self.cycle.keep_alive:
            # The old parser still expects the body, which it never saw.
            self.parser = HttpRequestParser(self)
            self._ignores_input = self._keeps_alive = False
        self.server_state.open_connections.mark_idle(self)
        self._due = self.loop.time() + self._bounds.idle
        if self._received and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(b"")

    def make_room(self) -> None:
        """Close this idle connection at once, in favour of a new one."""
        self._ignores_input = True
        self.transport.abort()

    def shutdown(self) -> None:
        """Close after the request under way, or, if idle, when called a second time.

        The server calls it when it begins to stop, and again (with *is_stopping* set) after
        `ClientLimits.drain`: a request that was sent before the client could know is answered."""
        self._keeps_alive = False
        if not self._is_idle:
            self.cycle.keep_alive = False
        elif self.server_state.is_stopping and not self._received:
            self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the transport stays open: a client may close its side and read the answer."""
        self.shutdown()
        self._ignores_input = True
        if self._body_left:  # it will not come: `receive` returns with more_body still True
            self.cycle.message_event.set()
        return not self._is_idle

    def _refuse(self, kind: kinds.Kind) -> Exception:
        """Send a problem and close, unless that was done; the result, raised, stops the parser."""
        self._ignores_input = True
        if not self.transport.is_closing():
            self.server_state.problems[kind.code] += 1
            request_id = next(self.server_state.request_ids)
            body = problems.body_of(kind, kind.detail, request_id)
            block = block_of(problems.headers_of(kind))
            length = b"x-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
                request_id.encode(),
                len(body),
            )
            every = self.server_state.default_block
            self.transport.send(STATUS_LINE[kind.status] + every + block + length + body)
            self.transport.close()
        return ValueError(kind.code)

    def _await_head(self) -> None:
        """Start the deadline of a head."""
        self._awaits_head = True
        self._due = self.loop.time() + self._bounds.head_seconds
        self._timer = self.loop.call_at(self._due, self._check_deadline)

    def _check_deadline(self) -> None:
        """Close if the client is late: 408 for half a head, without a word when idle.

        Requests move `_due` and leave the timer alone: a new one for each head costs more."""
        now = self.loop.time()
        if not self._is_idle or now < self._due:
            again = self._due if self._is_idle else now + self._bounds.idle
            self._timer = self.loop.call_at(again, self._check_deadline)
        elif self._awaits_head:
            self._refuse(kinds.SLOW_REQUEST)
        else:
            self.transport.close()
