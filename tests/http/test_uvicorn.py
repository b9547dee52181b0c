"""The names of uvicorn's that are no public interface, and that http/ builds on.

`pyproject.toml` caps uvicorn's version; whoever raises the cap learns here what has changed."""

import asyncio
import logging
from inspect import signature
from typing import Any

import uvicorn
from httptools import HttpRequestParser
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

HEAD = b"POST /a?b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"


class Transport(asyncio.Transport):
    """Keeps what was written, and whether it reads."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 5), "sockname": ("192.0.2.2", 80)})
        self.written = b""
        self.is_reading_now = True
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class App:
    """An ASGI application that takes a body and answers once it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.scope: Any = None
        self.body: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.body = await receive()
        await self.may_answer.wait()
        fields = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b"ok"})


def connected(app: Any) -> tuple[HttpToolsProtocol, Transport, ServerState]:
    state, transport = ServerState(), Transport()
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
    protocol = HttpToolsProtocol(config=config, server_state=state, app_state={"mine": 1})
    protocol.connection_made(transport)
    return protocol, transport, state


async def test_a_connection_has_what_the_hardened_protocol_reads_and_sets() -> None:
    """The parser, the client, the application's state, flow control and the access log's switch."""
    protocol, transport, state = connected(App())
    assert state.connections == {protocol}
    assert protocol.client == ("192.0.2.1", 5)
    assert protocol.app_state == {"mine": 1}
    assert protocol.server_state is state
    assert protocol.transport is transport
    assert isinstance(protocol.access_log, bool)
    assert isinstance(protocol.flow, FlowControl)
    assert isinstance(protocol.parser, HttpRequestParser)
    assert protocol.loop is asyncio.get_running_loop()
    assert protocol.cycle is None
    protocol.connection_lost(None)
    assert not state.connections


async def test_a_request_has_what_the_hardened_protocol_reads_and_sets() -> None:
    """Its target and fields, and in its cycle how far body and answer are."""
    app = App()
    protocol, transport, state = connected(app)
    protocol.data_received(HEAD)
    cycle = protocol.cycle
    assert protocol.url == b"/a?b"
    assert dict(protocol.headers)[b"content-length"] == b"3"
    assert protocol.scope["raw_path"] == b"/a"
    assert protocol.scope["state"] == {"mine": 1}
    assert (cycle.keep_alive, cycle.disconnected) == (True, False)
    assert (cycle.waiting_for_100_continue, cycle.more_body, bytes(cycle.body)) == (True, True, b"")
    await asyncio.sleep(0)
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    cycle.body += b"abc"
    cycle.more_body = False
    cycle.message_event.set()
    await asyncio.sleep(0.01)
    assert app.body == {"type": "http.request", "body": b"abc", "more_body": False}
    assert (cycle.response_started, cycle.response_complete) == (False, False)
    assert len(state.tasks) == 1
    transport.written = b""
    app.may_answer.set()
    await asyncio.sleep(0.01)
    assert (cycle.response_started, cycle.response_complete) == (True, True)
    assert transport.written.startswith(STATUS_LINE[200])
    assert (state.total_requests, len(state.tasks)) == (1, 0)
    protocol.connection_lost(None)


async def test_a_cycle_is_made_and_run_as_the_hardened_protocol_does_it() -> None:
    """All of what it is made of is given, so that a new parameter is seen here."""
    assert list(signature(RequestResponseCycle).parameters) == [
        *("scope", "transport", "flow", "logger", "access_logger", "access_log"),
        *("default_headers", "message_event", "expect_100_continue", "keep_alive", "on_response"),
    ]
    assert list(signature(RequestResponseCycle.run_asgi).parameters) == ["self", "app"]
    protocol, _, _ = connected(App())
    assert isinstance(protocol.access_logger, logging.Logger)
    assert isinstance(protocol.logger, logging.Logger)


async def test_an_answer_that_was_sent_in_one_call_is_told_by_on_response() -> None:
    """It is the protocol's `on_response_complete`, which counts the request; a cycle that is
    complete sends nothing more, and receives the end."""
    protocol, _, state = connected(App())
    protocol.data_received(HEAD)
    cycle = protocol.cycle
    cycle.response_started = cycle.response_complete = True
    cycle.on_response()
    assert state.total_requests == 1
    assert await cycle.receive() == {"type": "http.disconnect"}
    protocol.connection_lost(None)


async def test_flow_control_stops_and_resumes_reading_and_writing() -> None:
    """`write_paused` is set while the transport's buffer is full."""
    protocol, transport, _ = connected(App())
    protocol.flow.pause_reading()
    assert not transport.is_reading_now
    protocol.flow.resume_reading()
    assert transport.is_reading_now
    assert not protocol.flow.write_paused
    protocol.pause_writing()
    assert protocol.flow.write_paused
    protocol.connection_lost(None)


def test_the_server_has_what_ours_overrides() -> None:
    """Its state, the header fields of every answer, and the signals that it raises again."""
    server = uvicorn.Server(uvicorn.Config(App, log_config=None))
    assert isinstance(server.server_state, ServerState)
    assert server.server_state.default_headers == []
    assert server._captured_signals == []
    assert server.should_exit is False
    server.handle_exit(15, None)
    assert (server.should_exit, server._captured_signals) == (True, [15])
    assert {"capture_signals", "shutdown"} <= vars(uvicorn.Server).keys()
    assert {"shutdown", "eof_received", "on_headers_complete", "on_response_complete"} <= vars(
        HttpToolsProtocol
    ).keys()
