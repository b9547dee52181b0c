"""Request bodies on a real socket, byte by byte: the few that are taken, and all that are not.

The service's own routes, with four operations of which three take a body."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.http.asgi import Api
from content_gateway.http.asgi_extensions import MAX_BODY_BYTES
from content_gateway.http.limits import ClientLimits
from content_gateway.http.messages import Handler, Request, Response, keyed
from content_gateway.http.openapi import Operation
from content_gateway.http.protocol import HardenedProtocol
from tests.http.raw import LOOPS, PATIENCE, Edge, Wire, eventually, get, lines_of, running_edge

BOUNDS = ClientLimits(head_seconds=5, idle=5, linger=0.3, drain=0.1, stop=2)
BODY_SECONDS = 1.5
JSON = "Content-Type: application/json"
SMUGGLED = get("/plain")


class Echo:
    """Answers with the body it was given; `heard` is every body that reached it, `gate` what
    some answers wait for."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.gate = threading.Event()

    async def answer(self, request: Request) -> Response:
        self.heard.append(request.body)
        return keyed(json.dumps({"length": len(request.body)}).encode())

    async def answer_later(self, request: Request) -> Response:
        while not self.gate.is_set():
            await asyncio.sleep(0.01)
        return await self.answer(request)

    def api(self) -> Api:
        operations = [
            Operation("plain", "GET", "/plain", None),
            Operation("echo", "POST", "/echo", None, body_type=b"application/json"),
            Operation("gated", "POST", "/gated", None, body_type=b"application/json"),
            Operation("keyed", "POST", "/psa/echo", "pin", "bearer", body_type=b"application/json"),
        ]
        handlers = {
            "plain": Handler(self.answer, None),
            "echo": Handler(self.answer, None),
            "gated": Handler(self.answer_later, None),
            "keyed": Handler(self.answer, "pin"),
        }
        return Api(operations, handlers, OpenKeys(), body_seconds=BODY_SECONDS)


def post(body: bytes, *fields: str, path: str = "/echo", length: int | None = None) -> bytes:
    """A request with *body*, and a Content-Length unless a field says otherwise."""
    fields = fields or (JSON,)
    if not any(field.startswith(("Content-Length", "Transfer")) for field in fields):
        fields = (*fields, f"Content-Length: {len(body) if length is None else length}")
    return get(path, *fields).replace(b"GET", b"POST", 1) + body


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module", params=LOOPS)
def shared(request: pytest.FixtureRequest, echo: Echo) -> Iterator[Edge]:
    with running_edge(request.param, BOUNDS, echo.api()) as edge:
        yield edge


@pytest.fixture
def edge(shared: Edge, echo: Echo, caplog: pytest.LogCaptureFixture) -> Iterator[Edge]:
    """The server; afterwards it must be as quiet as before."""
    echo.heard.clear()
    echo.gate.clear()
    yield shared
    echo.gate.set()
    assert eventually(shared.is_quiet)
    assert not lines_of(caplog.records)


@pytest.mark.parametrize("size", [0, 1, 1_000, 16_385, MAX_BODY_BYTES])
@pytest.mark.parametrize("piece", [7_919, 1 << 20])
def test_a_body_arrives_whole(echo: Echo, wire: Wire, size: int, piece: int) -> None:
    """However it is cut into packets; up to 64 KiB, and an empty one too."""
    body = bytes(range(256)) * (size // 256 + 1)
    request = post(body[:size])
    for start in range(0, len(request), piece):
        wire.send(request[start : start + piece])
        time.sleep(0.001)
    assert wire.answer().json == {"length": size}
    assert echo.heard == [body[:size]]


def test_a_body_may_come_a_byte_at_a_time(echo: Echo, wire: Wire) -> None:
    for byte in post(b'{"a": 1}'):
        wire.send(bytes([byte]))
    assert wire.answer().status == 200
    assert echo.heard == [b'{"a": 1}']


def test_what_comes_with_a_body_is_not_executed(echo: Echo, wire: Wire) -> None:
    """A client waits for its answer before it sends more; bytes behind a body may be smuggled."""
    wire.send(post(b"{}") + SMUGGLED * 3)
    answer = wire.answer()
    assert (answer.status, answer.closes) == (200, True)
    wire.send(SMUGGLED)
    assert wire.has_ended()
    assert echo.heard == [b"{}"]


@pytest.mark.parametrize("behind", [SMUGGLED, b"\r\n", b"G"])
def test_what_comes_before_the_answer_is_not_executed(
    echo: Echo, edge: Edge, wire: Wire, behind: bytes
) -> None:
    wire.send(post(b"{}", path="/gated"))
    assert eventually(lambda: bool(edge.server.server_state.connections))
    (connection,) = edge.server.server_state.connections
    assert isinstance(connection, HardenedProtocol)
    assert eventually(lambda: connection.cycle is not None and connection.cycle.keep_alive)
    wire.send(behind)
    assert eventually(lambda: not connection.cycle.keep_alive)
    echo.gate.set()
    answer = wire.answer()
    assert (answer.status, answer.closes) == (200, True)
    wire.send(SMUGGLED)
    assert wire.has_ended()
    assert echo.heard == [b"{}"]


@pytest.mark.parametrize("piece", [7, 7_919, 1 << 20])
def test_who_waits_for_the_answer_keeps_the_connection(echo: Echo, wire: Wire, piece: int) -> None:
    """Requests with bodies and without, one behind the other, each read by its own length."""
    bodies = [b"{}", SMUGGLED, b"", b"0\r\n\r\n" + SMUGGLED, b'{"a": 1}']
    for body in bodies:
        request = post(body)
        for start in range(0, len(request), piece):
            wire.send(request[start : start + piece])
        answer = wire.answer()
        assert (answer.json, answer.closes) == ({"length": len(body)}, False)
        assert wire.ask(get("/plain")).json == {"length": 0}
    assert [body for body in echo.heard if body] == [body for body in bodies if body]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"), 200),
        (
            post(b"{}")
            .replace(b"HTTP/1.1", b"HTTP/1.0")
            .replace(JSON.encode(), JSON.encode() + b"\r\nConnection: keep-alive"),
            200,
        ),
        (post(b"{}", JSON, "Connection: close"), 200),
        (post(b"{}", "Content-Type: text/plain"), 415),
        (post(b"{", path="/nowhere", length=2), 404),
        (post(b"{", path="/psa/echo", length=2), 401),
        (get("/plain", JSON, "Content-Length: 2") + b"{}", 200),
        (post(b"{}").replace(b"POST", b"DELETE"), 405),
    ],
)
def test_every_other_body_ends_the_connection(wire: Wire, request_: bytes, status: int) -> None:
    """Of an older version, or where none belongs: proxies differ about those. Or not yet whole."""
    wire.send(request_)
    answer = wire.answer()
    assert (answer.status, answer.closes) == (status, True)
    wire.send(SMUGGLED)
    assert wire.has_ended()


def test_a_request_that_looks_like_a_body_is_a_body(echo: Echo, wire: Wire) -> None:
    """Its length says where it ends, whatever it contains."""
    wire.send(post(SMUGGLED + SMUGGLED[:10], length=len(SMUGGLED)))
    assert wire.answer().status == 200
    assert echo.heard == [SMUGGLED]


def test_a_request_before_a_body_is_answered_first(echo: Echo, wire: Wire) -> None:
    wire.send(get("/plain") * 2 + post(b"{}"))
    assert [wire.answer().json["length"] for _ in range(3)] == [0, 0, 2]


def is_refusal(wire: Wire, status: int) -> bool:
    """Whether the answer is a problem with *status* that ends the connection."""
    answer = wire.answer()
    assert (answer.status, answer.closes) == (status, True), answer
    assert answer.json["status"] == status
    return wire.rest() == b""


def test_a_body_is_64_kib_at_most(echo: Echo, wire: Wire) -> None:
    """A larger one is refused before it is sent, and its sender can read why."""
    wire.send(post(b"", length=MAX_BODY_BYTES + 1))
    assert is_refusal(wire, 413)
    assert not echo.heard


def test_who_uploads_40_mb_can_read_the_refusal(edge: Edge, wire: Wire) -> None:
    """It is not lost to a reset while the client is still sending, and nothing is kept of it."""
    wire.send(post(b"", length=40_000_000))
    sender = threading.Thread(target=wire.send_while_taken, args=(b"a" * 65_536, 600))
    assert eventually(lambda: bool(edge.server.server_state.connections))
    (connection,) = edge.server.server_state.connections
    assert isinstance(connection, HardenedProtocol)
    sender.start()
    assert is_refusal(wire, 413)
    sender.join()
    assert not connection.cycle.body


@pytest.mark.parametrize("coding", ["chunked", "gzip, chunked", "\tchunked "])
def test_a_chunked_body_is_refused(echo: Echo, wire: Wire, coding: str) -> None:
    """With a Content-Length there is one reading of where the request ends."""
    wire.send(post(b"2\r\n{}\r\n0\r\n\r\n", JSON, f"Transfer-Encoding: {coding}") + SMUGGLED)
    assert is_refusal(wire, 411)
    assert not echo.heard


@pytest.mark.parametrize(
    "fields",
    [
        ("X: 1",),
        ("Content-Type: text/plain",),
        ("Content-Type: application/jsonp",),
        ("Content-Type: application/json; charset=latin-1",),
        ("Content-Type: application/x-www-form-urlencoded",),
        (JSON, JSON),
        (JSON, "Content-Encoding: gzip"),
    ],
)
def test_only_json_is_taken(echo: Echo, wire: Wire, fields: tuple[str, ...]) -> None:
    """Nothing that has to be guessed at or unpacked."""
    wire.send(post(b"{}", *fields))
    assert is_refusal(wire, 415)
    assert not echo.heard


@pytest.mark.parametrize(
    "field", ["application/json; charset=UTF-8", 'Application/JSON ;charset="utf-8"']
)
def test_json_may_say_that_it_is_utf_8(wire: Wire, field: str) -> None:
    assert wire.ask(post(b"{}", f"Content-Type: {field}")).status == 200


def test_a_body_has_a_deadline(echo: Echo, edge: Edge) -> None:
    """No trickle of bytes moves it."""
    with edge.connect() as nothing, edge.connect() as half, edge.connect() as drips:
        for wire, sent in ((nothing, b""), (half, b"{"), (drips, b"{")):
            wire.send(post(sent, length=1_000))
        drips.socket.settimeout(0.05)
        while not drips.has_word():
            drips.send(b" ")
        for wire in (nothing, half, drips):
            wire.socket.settimeout(PATIENCE)
            assert is_refusal(wire, 408)
    assert not echo.heard


def test_a_body_that_ends_early_is_refused_at_once(echo: Echo, wire: Wire) -> None:
    """A client that ends its side has said all it will say, and may still read why not."""
    wire.send(post(b"{", length=1_000))
    wire.socket.shutdown(1)
    assert is_refusal(wire, 400)
    assert not echo.heard


def test_a_client_may_vanish_in_its_body(echo: Echo, edge: Edge) -> None:
    """Nobody's error, and nothing is done."""
    for _ in range(5):
        wire = edge.connect()
        wire.send(post(b"{", length=1_000))
        time.sleep(0.01)
        wire.reset()
    assert eventually(edge.is_quiet)
    assert not echo.heard


def test_100_continue_is_said_where_the_body_is_wanted(echo: Echo, wire: Wire) -> None:
    wire.send(post(b"", JSON, "Expect: 100-continue", length=2))
    assert wire.head().startswith("HTTP/1.1 100 ")
    wire.send(b"{}")
    assert wire.answer().status == 200
    assert echo.heard == [b"{}"]


@pytest.mark.parametrize(
    ("fields", "path", "status"),
    [
        ((JSON, "Content-Length: 70000"), "/echo", 413),
        ((JSON, "Transfer-Encoding: chunked"), "/echo", 411),
        (("Content-Type: text/plain", "Content-Length: 2"), "/echo", 415),
        ((JSON, "Content-Length: 2"), "/nowhere", 404),
    ],
)
def test_100_continue_is_not_said_where_it_is_not(
    edge: Edge, wire: Wire, fields: tuple[str, ...], path: str, status: int
) -> None:
    """The final answer comes first and alone."""
    wire.send(post(b"", *fields, "Expect: 100-continue", path=path))
    assert is_refusal(wire, status)


def test_the_key_comes_before_the_body(echo: Echo, edge: Edge) -> None:
    """Whoever may not ask is told so without a body being waited for."""
    for fields, status in (
        ((), 401),
        (("x-api-key: me",), 401),
        (("Authorization: Basic me",), 401),
        (("Authorization: Bearer me",), 200),
        (("authorization:  bearer   me ",), 200),
    ):
        with edge.connect() as wire:
            body = b"{}" if status == 200 else b""
            wire.send(post(body, JSON, *fields, path="/psa/echo", length=2))
            answer = wire.answer()
            assert answer.status == status, fields
            if status == 401:
                assert answer.headers["www-authenticate"].startswith("Bearer ")
                assert answer.json["error"]["reason"] == "UNAUTHORIZED"
    assert echo.heard == [b"{}", b"{}"]


def test_http_1_0_hears_no_100(echo: Echo, wire: Wire) -> None:
    """It does not know that answer; its body is taken all the same."""
    wire.send(post(b"{}", JSON, "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert wire.answer().status == 200
    assert echo.heard == [b"{}"]


def test_a_stop_waits_for_a_body_that_comes(edge: Edge) -> None:
    """What was begun when the server is told to stop is answered."""
    echo = Echo()
    with running_edge("uvloop", BOUNDS, echo.api()) as stopping, stopping.connect() as wire:
        wire.send(post(b"{", length=2))
        assert eventually(lambda: bool(stopping.server.server_state.tasks))
        stopping.begin_to_stop()
        wire.send(b"}")
        assert wire.answer().status == 200
    assert echo.heard == [b"{}"]
