"""The protocol: uvicorn's, with bounds, so that no client can hold it open, flood or confuse it.

No Python server is safe bare (docs/facts/edge.md, A bare server): this one bounds the head of a
request in bytes, fields and time, wants exactly one Host, takes in a small body and no more, and
closes behind any other. Knows HTTP/1.1 on the wire, not what is served."""

import asyncio
from collections import Counter
from typing import Any, Final, Protocol
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from content_gateway.http import problems
from content_gateway.http.connections import Connections
from content_gateway.http.limits import ClientLimits
from content_gateway.http.lingering_close import LingeringTransport
from content_gateway.http.request_head import too_large, wrong_host, wrong_version
from content_gateway.telemetry import request_ids

# An encoded slash is part of a segment, not a border between two (RFC 3986 section 2.2). It
# travels to the router as a lone surrogate, which no decoded path can contain otherwise.
ENCODED_SLASH: Final = "\udc2f"
# The ASGI extension by which the application hears that the request has a body: its "length",
# None where no Content-Length says it. Up to MAX_BODY_BYTES are there for one `receive`.
SENT_BODY: Final = "content_gateway.sent_body"
MAX_BODY_BYTES: Final = 64 * 1024
# A body has no meaning in any other (RFC 9110 section 9.3), and proxies differ about it there.
_WITH_BODIES: Final = frozenset((b"POST", b"PUT", b"PATCH"))
_KNOWN_HOSTS: Final = 100
# Where the application finds its Connection in `scope["state"]`, and how to answer at once.
CONNECTION: Final = "content_gateway.connection"
ANSWER: Final = "content_gateway.answer"


class Connection(Protocol):
    """What an application may want to know of, and do to, the connection it answers on."""

    bounds: ClientLimits

    def unread(self) -> int:
        """How many bytes were sent that the client has not taken, as far as we can tell."""

    def widen(self, is_wide: bool, /) -> None:
        """Let the kernel keep more for the client to read, or no longer."""

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""

    def break_off(self) -> None:
        """End it by a reset, which no client takes for the end of an answer."""


class Shared(ServerState):
    """What the connections of one server share."""

    def __init__(self, bounds: ClientLimits) -> None:
        super().__init__()
        self.bounds = bounds
        self.open_by_address: Counter[str] = Counter()
        self.crowd = Connections(bounds.connections)
        self.request_ids = request_ids()
        self.is_stopping = False
        self.hosts: set[bytes] = set()  # that were found good


class HardenedProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol, with bounds.

    One head is parsed at a time, and nothing behind it before it was answered: requests never
    pile up, a body never reaches a parser, and what waits is one read at most. What comes behind
    a body before its answer is never a request, and ends the connection."""

    server_state: Shared
    transport: LingeringTransport  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False  # else uvicorn logs when any logging handler could listen
        self.url = b""
        self._bounds = self.server_state.bounds
        self._received = b""  # from the first byte of the head under way
        self._parsed = 0  # how much of it the parser has
        self._is_idle = True  # no request is being answered
        self._has_begun = False  # something was received since the last answer
        self._is_deaf = False  # nothing more is taken from this client, but the body under way
        self._missing = 0  # bytes of that body
        self._may_stay = False  # the connection, once that body is whole

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection and give its first request a deadline."""
        super().connection_made(transport)
        self.transport = LingeringTransport(transport, self.flow, self._bounds)
        self.app_state = {CONNECTION: self.transport, ANSWER: self.answer}  # for every scope
        self._await_head()
        self._address = self.client[0] if self.client else ""
        self.server_state.open_by_address[self._address] += 1
        has_room = self.server_state.crowd.arrive(self, self.transport.descriptor)
        if not has_room or (
            self.server_state.open_by_address[self._address] > self._bounds.per_address
        ):
            self._refuse(problems.TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.server_state.crowd.leave(self)
        self.server_state.open_by_address[self._address] -= 1
        if not self.server_state.open_by_address[self._address]:
            del self.server_state.open_by_address[self._address]
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, one head at a time, until a request is under way."""
        if self._is_deaf or self.transport.is_closed:
            if self._missing:
                self._take_body(data)
            elif not self._is_idle:
                self.cycle.keep_alive = False
            return
        self._received += data
        while self._received and self._is_idle:
            end = self._received.find(b"\r\n\r\n") + 4
            size = end if end > 3 else len(self._received)
            most = self._bounds.head_bytes
            try:
                self.parser.feed_data(self._received[self._parsed : size if size < most else most])
            except (HttpParserError, HttpParserUpgrade):
                if self._is_idle:  # else an upgrade, which HTTP/1.1 may answer (RFC 9110, 7.8)
                    self._refuse(wrong_version(self._received) or problems.BAD_REQUEST)
            if size > most:
                self._refuse(too_large(self.url, self._bounds.path_bytes))
            elif end < 4:
                self._parsed = size
                break
            self._parsed = 0
            rest = self._received[size:]
            self._received = b"" if self._is_deaf else rest
            if self._missing:
                self._take_body(rest)
        if self._received and not self._is_idle:
            self.flow.pause_reading()
        elif self._is_idle and not self._has_begun:
            self._timer.cancel()
            self._await_head()

    def on_headers_complete(self) -> None:
        """The head is whole: check what only the whole shows, and start the request."""
        fields, number = dict(self.headers), len(self.headers)
        most = self._bounds.path_bytes  # and a query may be as long as the head
        if len(self.url) > most and len(self.url.partition(b"?")[0]) > most:
            raise self._refuse(problems.LONG_PATH)
        if number > self._bounds.fields:
            raise self._refuse(problems.LARGE_HEAD)
        if number > len(fields) and [name for name, _ in self.headers].count(b"host") > 1:
            raise self._refuse(problems.BAD_REQUEST)
        if (wrong := wrong_version(self._received)) is not None:
            raise self._refuse(wrong)
        host = fields.get(b"host")
        if host is None and self.parser.get_http_version() != "1.0":
            raise self._refuse(problems.BAD_REQUEST)
        if host is not None and host not in self.server_state.hosts:
            if (wrong := wrong_host(host, is_local=self._bounds.is_local)) is not None:
                raise self._refuse(wrong)
            if len(self.server_state.hosts) < _KNOWN_HOSTS:
                self.server_state.hosts.add(host)
        super().on_headers_complete()
        self._is_idle = False
        self.server_state.crowd.work(self)
        if b"%" in self.url:
            segments = self.scope["raw_path"].decode().replace("%2F", "%2f").split("%2f")
            self.scope["path"] = ENCODED_SLASH.join(map(unquote, segments))
        if self.server_state.is_stopping or self.parser.should_upgrade():
            self.cycle.keep_alive = False
        length = fields.get(b"content-length")  # the parser refuses a second one
        if (length and length.strip(b"0")) or b"transfer-encoding" in fields:
            self._expect_body(fields)
        # What follows the last request is never parsed as another (request smuggling).
        self._is_deaf = not self.cycle.keep_alive

    def _expect_body(self, fields: dict[bytes, bytes]) -> None:
        """Take in a body that is small and says its length; none other is read."""
        length = None if b"transfer-encoding" in fields else int(fields[b"content-length"])
        self.scope["extensions"] = {SENT_BODY: {"length": length}}
        is_plain = self.scope["http_version"] == "1.1" and self.parser.get_method() in _WITH_BODIES
        self._may_stay = is_plain and self.cycle.keep_alive
        self.cycle.keep_alive = False
        self._missing = length if length and length <= MAX_BODY_BYTES else 0
        if not self._missing:
            self.cycle.more_body = False
            self.cycle.message_event.set()
        if not self._missing or self.scope["http_version"] == "1.0":
            self.cycle.waiting_for_100_continue = False  # RFC 9110 section 10.1.1

    def _take_body(self, data: bytes) -> None:
        """Keep what is missing of the body; the application gets it once it is whole."""
        behind = len(data) - self._missing
        self.cycle.body += data[: self._missing]
        self._missing = max(0, -behind)
        if not self._missing:
            is_answered = self.cycle.response_started
            self.cycle.keep_alive = self._may_stay and not behind and not is_answered
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def answer(self, status: int, fields: problems.Headers, body: bytes) -> bool:
        """Send the whole answer to the request under way, whose length *fields* tell; False, and
        nothing is sent, where that must wait, or nobody is there any more.

        As ASGI's `send` does in two calls, which took a sixth of the time of a small answer."""
        cycle = self.cycle
        if cycle.disconnected or cycle.response_started or self.flow.write_paused:
            return False
        head = self._lines_of(fields)
        lines = len(self.server_state.default_headers) + len(fields)
        if not head.count(b"\r") == head.count(b"\n") == lines:
            raise ValueError("a header field has the end of a line in it")  # RFC 9110 section 5.5
        if problems.CLOSE in fields:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            head += b"connection: close\r\n"
        sent = b"" if self.scope["method"] == "HEAD" else body
        self.transport.send(STATUS_LINE[status] + head + b"\r\n" + sent)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def _lines_of(self, fields: problems.Headers) -> bytes:
        """The lines of *fields* behind those that every answer has."""
        every = self.server_state.default_headers
        return b"".join([b"%b: %b\r\n" % field for field in (*every, *fields)])

    def on_response_complete(self) -> None:
        """Await the next request, or go on with what has arrived of it."""
        self.transport.flush()
        self.server_state.total_requests += 1
        self._is_idle, self._has_begun = True, False
        if self._may_stay and self.cycle.keep_alive:
            # This parser waits for the body; the next has never heard of one.
            self.parser, self._is_deaf, self._may_stay = HttpRequestParser(self), False, False
        self.server_state.crowd.rest(self)
        self._due = self.loop.time() + self._bounds.idle
        if self._received and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(b"")

    def make_room(self) -> None:
        """End the connection at once, for one that has just come."""
        self._is_deaf = True
        self.transport.abort()

    def shutdown(self) -> None:
        """Make the request under way the last; without one, close once the server has drained."""
        self._may_stay = False
        if not self._is_idle:
            self.cycle.keep_alive = False
        elif self.server_state.is_stopping and not self._received:
            self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to stay: a client may end its side, and still read the answer under way."""
        self.shutdown()
        self._is_deaf = True
        if self._missing:  # it will not come: the application is told so
            self.cycle.message_event.set()
        return not self._is_idle

    def _refuse(self, kind: problems.Kind) -> Exception:
        """Answer with a problem, the first time, and hang up; returns what stops the parser."""
        self._is_deaf = True
        if not self.transport.is_closing():
            request_id = next(self.server_state.request_ids)
            body = problems.body_of(kind, kind.detail, request_id)
            head = self._lines_of(problems.headers_of(kind, request_id))
            length = b"content-length: %d\r\n\r\n" % len(body)
            self.transport.send(STATUS_LINE[kind.status] + head + length + body)
            self.transport.close()
        return ValueError(kind.code)

    def _await_head(self) -> None:
        self._has_begun = True
        self._due = self.loop.time() + self._bounds.head_seconds
        self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Hang up if the client is late; one timer that looks again costs less than one a head."""
        now = self.loop.time()
        if not self._is_idle or now < self._due:
            again = self._due if self._is_idle else now + self._bounds.idle
            self._timer = self.loop.call_at(again, self._look)
        elif self._has_begun:
            self._refuse(problems.SLOW_REQUEST)
        else:
            self.transport.close()
