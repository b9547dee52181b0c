"""A client that speaks bytes, and a server to say them to.

The server runs in a thread of its own, on the loop that is asked for: asyncio's, or uvloop as
in production. The client is a blocking socket, so that a test reads as the bytes on the wire."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import uvloop

from content_gateway.http.asgi_extensions import ANSWER
from content_gateway.http.header_block import block_of
from content_gateway.http.limits import ClientLimits
from content_gateway.http.server import Server, listen, make_server

LOOPS: Final[dict[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
BIG: Final = 8 * 1024 * 1024
PATIENCE: Final = 40.0  # seconds; far more than anything here takes
PROBLEM_FIELDS: Final = {"type", "title", "status", "detail", "code", "requestId", "message"}


def get(path: str = "/", *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: here", *fields, "", ""]).encode("latin-1")


def eventually(question: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether *question* becomes true within *seconds*."""
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class App:
    """Answers with what it was asked; keeps the path of every call. It answers by ASGI's `send`, or
    *at_once* as far as the server has a way."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.at_once = at_once
        self.forget()

    def forget(self) -> None:
        """Begin again: no call was seen, the gate is closed."""
        self.requests: list[str] = []
        self.gate = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.requests.append(path)
        answer = {"path": path, "method": scope["method"], "version": scope["http_version"]}
        body, extra = b"", []
        if path == "/gated":
            await self.gate.wait()
        elif path == "/slow":
            await asyncio.sleep(0.7)
        elif path == "/endless":
            await asyncio.sleep(60)
        elif path == "/receives":
            answer["received"] = repr(await receive())
        elif path == "/closes":
            extra = [(b"connection", b"close")]
        elif path == "/big":
            body = bytes(BIG)
        body = body or json.dumps(answer).encode()
        headers = [(b"content-length", str(len(body)).encode()), *extra]
        if self.at_once and scope["state"][ANSWER](200, block_of(headers), body):
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True)
class Answer:
    """One answer, as it was on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        """Whether it announces the end of the connection."""
        return self.headers.get("connection") == "close"

    def is_refusal(self, status: int) -> bool:
        """Whether it is a whole problem document with *status* that ends the connection."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/problem+json"
        assert self.headers["cache-control"] == "no-store"
        assert "date" in self.headers
        assert self.closes
        body = self.json
        assert set(body) == PROBLEM_FIELDS
        assert all(body.values())
        assert body["status"] == status
        assert body["message"] == body["detail"]
        assert body["type"].endswith(body["code"])
        assert body["requestId"] == self.headers["x-request-id"]
        return True


class Wire:
    """One connection. A reset raises ConnectionResetError, a silence TimeoutError."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))
        try:
            # Where nobody listens, TCP lets a socket connect to itself by chance.
            is_own = self.socket.getsockname() == self.socket.getpeername()
        except OSError:
            is_own = True  # the other side closed before anything was asked
        if is_own:
            self.socket.close()
            raise ConnectionRefusedError
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_while_taken(self, data: bytes, times: int) -> None:
        """*data* as many times as asked, or until the server closes."""
        try:
            for _ in range(times):
                self.socket.sendall(data)
        except OSError:
            pass

    def answer(self) -> Answer:
        """The next answer, by its Content-Length."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = [line.split(": ", 1) for line in head[1:] if line]
        headers = {name.lower(): value for name, value in fields}
        assert len(headers) == len(fields), f"doubled header fields: {head}"
        assert head[0].startswith("HTTP/1.1 ")
        length = int(headers["content-length"])
        while len(self._received) < length:
            self._more()
        body, self._received = self._received[:length], self._received[length:]
        return Answer(int(head[0].split()[1]), headers, body)

    def head(self) -> str:
        """The head of the next answer, whatever follows it."""
        return self._until(b"\r\n\r\n").decode("latin-1")

    def through(self, mark: bytes) -> bytes:
        """Everything up to the next *mark*, which is taken as well."""
        return self._until(mark)

    def ask(self, request: bytes) -> Answer:
        self.send(request)
        return self.answer()

    def rest(self) -> bytes:
        """Everything until the server ends its side."""
        while chunk := self.socket.recv(1 << 16):
            self._received += chunk
        rest, self._received = self._received, b""
        return rest

    def has_word(self) -> bool:
        """Whether the server says something, or ends its side, within the socket's time-out."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return False
        return True

    def has_ended(self) -> bool:
        """Whether the server ends its side cleanly without sending anything more."""
        return self.rest() == b""

    def reset(self) -> None:
        """Vanish, as a crashed client does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._more()
        found, _, self._received = self._received.partition(mark)
        return found

    def _more(self) -> None:
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise EOFError(self._received)
        self._received += chunk


class Edge:
    """The server under test. *complaints* is what reached its loop's exception handler."""

    def __init__(
        self, loop: str, bounds: ClientLimits, application: Any = None, *, at_once: bool = False
    ) -> None:
        self.app = App(at_once=at_once)
        self.complaints: list[dict[str, Any]] = []
        self._listener = listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.server: Server = make_server(application or self.app, bounds)
        self.server.owns_signals = False
        self._thread = threading.Thread(target=self._run, args=(LOOPS[loop],), daemon=True)
        self._thread.start()
        assert eventually(lambda: bool(self.server.server_state.default_headers))

    def connect(self, source: str = "127.0.0.1") -> Wire:
        return Wire(self.port, source)

    def open_gate(self) -> None:
        """Let `/gated` answer."""
        self._loop.call_soon_threadsafe(self.app.gate.set)
        assert eventually(self.app.gate.is_set)

    def is_quiet(self) -> bool:
        """Whether every connection is gone and forgotten."""
        state = self.server.server_state
        return not (state.connections or state.tasks or state.open_by_address)

    def begin_to_stop(self) -> None:
        """Ask the server to stop, and wait until it does."""
        self.server.should_exit = True
        assert eventually(lambda: self.server.server_state.is_stopping)

    def has_stopped(self) -> bool:
        """Whether it does so within our patience."""
        self._thread.join(PATIENCE)
        return not self._thread.is_alive()

    def _run(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            self._loop = runner.get_loop()
            self._loop.set_exception_handler(lambda _, context: self.complaints.append(context))
            runner.run(self.server.serve(sockets=[self._listener]))


@contextmanager
def running_edge(
    loop: str, bounds: ClientLimits, application: Any = None, *, at_once: bool = False
) -> Iterator[Edge]:
    """A server of *application* (an App, if it is left out) on a free port, stopped at the end."""
    edge = Edge(loop, bounds, application, at_once=at_once)
    try:
        yield edge
    finally:
        edge.begin_to_stop()
        assert edge.has_stopped()
        assert not edge.complaints


def lines_of(records: list[logging.LogRecord]) -> list[str]:
    """What was logged, but for the server's own starts and stops."""
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


def main() -> None:
    """A server as a process of its own, on uvloop, stopped by signals."""

    async def serve() -> None:
        listener = listen("127.0.0.1", 0)
        print(listener.getsockname()[1], flush=True)
        bounds = ClientLimits(head_seconds=2.0, idle=2, linger=0.3, drain=0.2, stop=3)
        await make_server(App(), bounds).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
