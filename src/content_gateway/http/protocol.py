"""The HTTP/1.1 protocol: uvicorn's httptools protocol with limits for hostile clients.

Limits a request's head in bytes, fields and time, requires exactly one Host field, reads small
bodies only and closes the connection after any other; without these any client can exhaust a
Python server (docs/facts/edge.md, A bare server). Knows HTTP on the wire; routes and answers are
left to asgi.py, sockets to lingering_close.py."""

import asyncio
from typing import Any, Final
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from content_gateway.http import kinds, problems
from content_gateway.http.asgi_extensions import (
    ANSWER,
    CONNECTION,
    ENCODED_SLASH,
    MAX_BODY_BYTES,
    SENT_BODY,
)
from content_gateway.http.header_block import block_of
from content_gateway.http.lingering_close import LingeringTransport
from content_gateway.http.request_head import (
    names_another_host,
    too_large,
    version_of,
    wrong_host,
)
from content_gateway.http.server_state import SharedState

# In other methods a body has no defined meaning (RFC 9110 section 9.3), and proxies disagree about
# where it ends, which is what request smuggling uses.
_WITH_BODIES: Final = frozenset((b"POST", b"PUT", b"PATCH"))
_KNOWN_HOSTS: Final = 100
_CLOSE: Final = block_of([kinds.CLOSE])


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
        self._task: asyncio.Task[None] | None = None  # which answers the last request
        self._keeps_alive = False  # the connection is kept if the body comes whole and alone

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, refuse it above a limit, and start the first head's deadline."""
        super().connection_made(transport)
        outbox = self.server_state.outbox
        self.transport = LingeringTransport(transport, self.flow, self._bounds, outbox)
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
        self._wait_for_task()
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
                    version = version_of(self._received)
                    self._refuse(kinds.BAD_REQUEST if isinstance(version, str) else version)
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
        version = version_of(self._received)
        if not isinstance(version, str):
            raise self._refuse(version)
        host = fields.get(b"host")
        if host is None and version != "1.0":
            raise self._refuse(kinds.BAD_REQUEST)
        # Clients send the same few hosts, so those that passed are remembered, a hundred at most.
        if host is not None and host not in self.server_state.hosts:
            bounds = self._bounds
            wrong = wrong_host(host, is_local=bounds.is_local, sites=bounds.sites)
            if wrong is not None:
                raise self._refuse(wrong)
            if len(self.server_state.hosts) < _KNOWN_HOSTS:
                self.server_state.hosts.add(host)
        is_absolute = self.url[:1] != b"/"
        if is_absolute and host is not None and names_another_host(self.url, host):
            raise self._refuse(kinds.BAD_REQUEST)
        self._call_application(version)
        self._is_idle = False
        self.server_state.open_connections.mark_busy(self)
        if self.server_state.is_stopping or self.parser.should_upgrade():
            self.cycle.keep_alive = False
        length = fields.get(b"content-length")  # the parser refuses a second one
        if (length and length.strip(b"0")) or b"transfer-encoding" in fields:
            self._expect_body(fields)
        # What follows the last request, or a body, is never parsed as another (request smuggling).
        self._ignores_input = not self.cycle.keep_alive

    def _call_application(self, version: str) -> None:
        """Complete the scope, and let the application answer in a task.

        uvicorn's `on_headers_complete` in fewer steps, which are 3 % of the time of a small answer:
        there are no upgrades, no root path, no pipeline of requests, and slashes that were encoded
        stay what they are."""
        target, scope = self.url, self.scope
        if target[:1] != b"/" or b"#" in target:  # rare: an absolute form, or a fragment
            parsed = parse_url(target)
            target = parsed.path + b"?" + (parsed.query or b"")
        path, _, scope["query_string"] = target.partition(b"?")
        scope["raw_path"], scope["path"] = path, path.decode("ascii")
        if b"%" in path:
            segments = scope["path"].replace("%2F", "%2f").split("%2f")
            scope["path"] = ENCODED_SLASH.join(map(unquote, segments))
        scope["method"], scope["http_version"] = self.parser.get_method().decode(), version
        self.cycle = RequestResponseCycle(
            scope,
            self.transport,  # type: ignore[arg-type]
            self.flow,
            self.logger,
            self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version == "1.1" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        # uvicorn has the loop call back when a task has ended, which takes as long again: here only
        # where one goes on behind its answer, or without its client (`_wait_for_task`).
        self._task = self.loop.create_task(self.cycle.run_asgi(self.app))
        self.tasks.add(self._task)

    def _wait_for_task(self) -> None:
        """Let the server wait for the task of the last request, unless `answer` has ended it."""
        if self._task is not None and self._task in self.tasks:
            self._task.add_done_callback(self.tasks.discard)

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
        self.transport.send_soon(b"".join((STATUS_LINE[status], every, block, end, sent)))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.tasks.discard(self._task)
        cycle.on_response()
        return True

    def on_response_complete(self) -> None:
        """Wait for the next request, or parse what was received of it before the answer."""
        self.transport.flush()
        self._wait_for_task()
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
        self.transport.send_rest()
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
        self.transport.send_rest()
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
