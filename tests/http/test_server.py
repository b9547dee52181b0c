"""The hardened protocol on a real socket, byte by byte, on both event loops.

Whatever a client sends gets an answer or a close, in bounded time and memory; after every test
nothing was logged and no connection is left."""

import json
import random
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.http.asgi import Api
from content_gateway.http.asgi_extensions import ENCODED_SLASH
from content_gateway.http.limits import ClientLimits
from content_gateway.http.messages import Handler, Request, Response
from content_gateway.http.openapi import Operation
from content_gateway.http.protocol import HardenedProtocol
from tests.cases import case
from tests.http.raw import (
    BIG,
    LOOPS,
    PATIENCE,
    Edge,
    Wire,
    eventually,
    get,
    lines_of,
    running_edge,
)

# On a busy machine seconds pass between two steps of a client: only what is about these bounds has
# short ones.
BOUNDS = ClientLimits(head_seconds=60, idle=60, linger=0.3, drain=0.1, stop=2)
SHORT_BOUNDS = ClientLimits(head_seconds=1.5, idle=1, linger=0.3, drain=0.1, stop=2)
SERVERS = ["asyncio", "uvloop", "asyncio at once", "uvloop at once"]
SMUGGLED = get("/smuggled")


@pytest.fixture(scope="module", params=SERVERS)
def shared(request: pytest.FixtureRequest) -> Iterator[Edge]:
    loop, _, at_once = request.param.partition(" ")
    with running_edge(loop, BOUNDS, at_once=bool(at_once)) as edge:
        yield edge


@pytest.fixture(params=SERVERS)
def impatient(request: pytest.FixtureRequest) -> Iterator[Edge]:
    """A server that waits for nobody."""
    loop, _, at_once = request.param.partition(" ")
    with running_edge(loop, SHORT_BOUNDS, at_once=bool(at_once)) as edge:
        yield edge
        assert eventually(edge.is_quiet)
        assert not edge.complaints


@pytest.fixture
def edge(shared: Edge, caplog: pytest.LogCaptureFixture) -> Iterator[Edge]:
    """The server; afterwards it must be as quiet as before."""
    shared.app.forget()
    yield shared
    shared.open_gate()
    assert eventually(shared.is_quiet)
    assert not shared.complaints
    assert not lines_of(caplog.records)


# -- the size of a head ---------------------------------------------------------------------


def head_of(size: int) -> bytes:
    """A good request whose head has *size* bytes."""
    return get("/", "x: " + "a" * (size - len(get("/", "x: "))))


def test_a_header_field_of_32_mib_is_refused(edge: Edge, wire: Wire) -> None:
    """It is refused after 16 KiB, and the client can read why, though it goes on sending."""
    wire.send(b"GET / HTTP/1.1\r\nHost: here\r\nx: ")
    sender = threading.Thread(target=wire.send_while_taken, args=(b"a" * 65_536, 512))
    sender.start()
    assert wire.answer().is_refusal(431)
    sender.join()
    assert not edge.app.requests


@pytest.mark.parametrize(("fields", "is_good"), [(64, True), (65, False), (20_000, False)])
def test_the_number_of_header_fields_is_bounded(wire: Wire, fields: int, is_good: bool) -> None:
    """64 header fields are taken, Host included; one more is refused."""
    request = get("/", *(f"x-{n}: {n}" for n in range(fields - 1)))
    sender = threading.Thread(target=wire.send_while_taken, args=(request, 1))
    sender.start()
    answer = wire.answer()
    sender.join()
    assert answer.status == 200 if is_good else answer.is_refusal(431)


@pytest.mark.parametrize("piece", [1 << 20, 5_000, 1_021])
def test_a_head_of_16_kib_is_taken_and_one_byte_more_refused(edge: Edge, piece: int) -> None:
    """The bound does not depend on how the head is cut into packets, or what is before it."""
    for size, status in ((16_384, 200), (16_385, 431)):
        for before in (0, 1):
            with edge.connect() as wire:
                request = get("/before") * before + head_of(size)
                for start in range(0, len(request), piece):
                    wire.send(request[start : start + piece])
                    time.sleep(0.001)
                assert [wire.answer().status for _ in range(before)] == [200] * before
                assert wire.answer().status == status


@pytest.mark.parametrize("size", [2_048, 2_049, 15_000, 17_000, 1 << 20])
def test_a_path_is_2048_bytes_at_most(edge: Edge, wire: Wire, size: int) -> None:
    """A longer one is refused as such, even where the head as a whole is too long as well."""
    path = "/" + "p" * (size - 1)
    wire.send_while_taken(get(path), 1)
    answer = wire.answer()
    if size == 2_048:
        assert answer.json["path"] == path
    else:
        assert answer.is_refusal(414)
        assert not edge.app.requests


def test_a_query_may_be_as_long_as_the_head(edge: Edge, wire: Wire) -> None:
    """Filters of the Pinning Service API can be; a path before one is bounded all the same."""
    assert wire.ask(get("/p?" + "q" * 12_000)).json["path"] == "/p"
    assert wire.ask(get("/" + "p" * 2_048 + "?q")).is_refusal(414)
    assert edge.app.requests == ["/p"]


# -- the time of a head ---------------------------------------------------------------------


def test_a_head_has_a_deadline(impatient: Edge) -> None:
    """Half a head gets 408 when its time is over, and no trickle of bytes moves that moment."""
    ways = ["nothing", "half", "drips", "crlf", "crlf drips", "blank lines"]
    with ThreadPoolExecutor(2 * len(ways)) as clients:
        for ended in [
            clients.submit(dawdle, impatient, sent, is_kept_alive=is_kept_alive)
            for sent in ways
            for is_kept_alive in (False, True)
        ]:
            ended.result(2 * PATIENCE)


def dawdle(edge: Edge, sent: str, *, is_kept_alive: bool) -> None:
    """Send a first piece of a request, and then drips of it, until the server has had enough."""
    drip = {"drips": b"x", "crlf drips": b"\r\n", "blank lines": b"\r\n\r\n"}.get(sent, b"")
    first = {"half": get()[:-2], "drips": get()[:-4], "crlf": b"\r\n"}.get(sent, drip)
    with edge.connect() as wire, case(sent, is_kept_alive):
        if is_kept_alive:
            assert wire.ask(get()).status == 200
        start = time.monotonic()
        wire.send(first)
        wire.socket.settimeout(0.05)
        while not wire.has_word():
            wire.send(drip)
            assert time.monotonic() - start < PATIENCE, "its deadline moves"
        wire.socket.settimeout(PATIENCE)
        if sent != "nothing" or not is_kept_alive:
            assert wire.answer().is_refusal(408)
        assert wire.has_ended()
        assert time.monotonic() - start > 0.9


def test_an_idle_connection_is_closed_cleanly(impatient: Edge) -> None:
    """A kept connection ends after a while without a byte; what comes too late is not executed."""
    with impatient.connect() as wire:
        assert wire.ask(get("/first")).status == 200
        assert wire.has_ended()
        wire.send(get("/late"))
        assert wire.has_ended()
        assert impatient.app.requests == ["/first"]


def test_the_deadline_does_not_run_while_an_answer_is_awaited(edge: Edge, wire: Wire) -> None:
    """Half a head behind a slow request has its whole time once that request was answered."""
    second = get("/second")
    wire.send(get("/gated") + second[:10])
    time.sleep(1.7)
    edge.open_gate()
    assert wire.answer().json["path"] == "/gated"
    wire.send(second[10:])
    assert wire.answer().json["path"] == "/second"


def test_a_slow_answer_is_awaited(edge: Edge, wire: Wire) -> None:
    """No deadline of the client's is counted against us."""
    wire.send(get("/gated"))
    time.sleep(1.7)
    edge.open_gate()
    assert wire.answer().status == 200
    assert wire.ask(get()).status == 200


# -- what a head must and must not say ------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHOST: b\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nhOsT: a\r\nx: 1\r\nx: 2\r\n\r\n", 200),
        (b"GET http://there/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
    ],
)
def test_a_request_has_exactly_one_host(edge: Edge, wire: Wire, head: bytes, status: int) -> None:
    """None or two are refused before the application is called; HTTP/1.0 may have none."""
    answer = wire.ask(head)
    assert answer.status == 200 if status == 200 else answer.is_refusal(status)
    assert len(edge.app.requests) == (status == 200)


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 0", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: 0", "Content-Length: 5"),
        ("Content-Length: 0", "Content-Length: 0"),
        ("Content-Length: 5, 5",),
        ("Content-Length: -1",),
        ("Content-Length: +0",),
        ("Content-Length: 0x5",),
        ("Content-Length: 99999999999999999999999",),
        ("Content-Length : 5",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",),
    ],
)
def test_an_ambiguous_length_is_refused(edge: Edge, wire: Wire, fields: tuple[str, ...]) -> None:
    """Where two readers could disagree on where a request ends, there is no request."""
    assert wire.ask(get("/", *fields) + b"0\r\n\r\n" + SMUGGLED).is_refusal(400)
    assert wire.has_ended()
    assert not edge.app.requests


# -- bodies ---------------------------------------------------------------------------------

CHUNKED = b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (("Content-Length: 5",), b"hello"),
        (("Content-Length: 5",), b""),
        (("Content-Length: 005",), b"hello"),
        ((f"Content-Length: {len(SMUGGLED)}",), SMUGGLED),
        (("Content-Length: 5", "Expect: 100-continue"), b""),
        (("Content-Length: 5", "Expect: 100-continue"), b"hello"),
        (("Content-Length: 5", "Upgrade: websocket", "Connection: Upgrade"), b"hello"),
        (("Transfer-Encoding: chunked",), CHUNKED),
        (("Transfer-Encoding: chunked",), b"zz\r\n"),
        (("Transfer-Encoding: gzip, chunked",), CHUNKED),
        (("Transfer-Encoding: \tchunked ",), CHUNKED),
        ((f"Content-Length: {200_000}",), b"a" * 200_000),
    ],
)
@pytest.mark.parametrize("when", ["at once", "later"])
def test_behind_a_body_nothing_is_executed(
    edge: Edge, wire: Wire, fields: tuple[str, ...], body: bytes, when: str
) -> None:
    """A request with a body is answered once and in full, and the connection ends behind it."""
    head = get("/gated", *fields)
    if when == "at once":
        wire.send(head + body + SMUGGLED)
    else:
        wire.send(head)
        wire.send(body)
        wire.send(SMUGGLED)
    edge.open_gate()
    answer = wire.answer()
    assert answer.json["path"] == "/gated"
    assert answer.closes
    wire.send(SMUGGLED)
    assert wire.has_ended()
    assert edge.app.requests == ["/gated"]


@pytest.mark.parametrize("path", ["/", "/gated"])
@pytest.mark.parametrize("fields", ["Content-Length: 40000000", "Transfer-Encoding: chunked"])
def test_who_uploads_40_mb_can_read_the_answer(
    edge: Edge, wire: Wire, path: str, fields: str
) -> None:
    """The answer is not lost to a reset while the client is still sending."""
    wire.send(get(path, fields))
    chunk = b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
    sender = threading.Thread(target=wire.send_while_taken, args=(chunk, 1_300))
    sender.start()
    time.sleep(0.05)
    edge.open_gate()
    answer = wire.answer()
    assert (answer.status, answer.closes) == (200, True)
    assert wire.rest() == b""
    sender.join()
    assert edge.app.requests == [path]


@pytest.mark.parametrize("length", ["0", "00"])
def test_a_length_of_zero_is_no_body(edge: Edge, wire: Wire, length: str) -> None:
    """Clients send it with POST; the connection stays."""
    for _ in range(3):
        answer = wire.ask(get("/", f"Content-Length: {length}"))
        assert (answer.status, answer.closes) == (200, False)


# -- many requests on one connection --------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(edge: Edge, wire: Wire) -> None:
    """Also when the first is the slowest, and when they are cut anywhere."""
    requests = get("/gated") + b"".join(get(f"/{n}") for n in range(20))
    for start in range(0, len(requests), 37):
        wire.send(requests[start : start + 37])
    time.sleep(0.05)
    assert edge.app.requests == ["/gated"]
    edge.open_gate()
    paths = [wire.answer().json["path"] for _ in range(21)]
    assert paths == ["/gated", *(f"/{n}" for n in range(20))]
    assert wire.ask(get("/more")).json["path"] == "/more"


def test_200_requests_in_one_write_are_not_too_large(wire: Wire) -> None:
    """The bound is for a head, not for a connection; the last head is completed later."""
    requests = b"".join(get(f"/{n}", "x: " + "a" * 200) for n in range(200))
    wire.send(requests[:-5])
    paths = [wire.answer().json["path"] for _ in range(199)]
    wire.send(requests[-5:])
    paths.append(wire.answer().json["path"])
    assert paths == [f"/{n}" for n in range(200)]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_end_of_a_head_may_be_cut_anywhere(wire: Wire, cut: int) -> None:
    """The empty line may come in two packets, the next request behind it."""
    request = get("/")
    wire.send(request[:-cut])
    time.sleep(0.02)
    wire.send(request[-cut:] + get("/second") + b"\r\n" + get("/third"))
    paths = [wire.answer().json["path"] for _ in range(3)]
    assert paths == ["/", "/second", "/third"]


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"a" * 50_000, 431),
        (get("/" + "p" * 3_000), 414),
    ],
)
def test_a_bad_request_behind_a_slow_one_waits_for_its_turn(
    edge: Edge, wire: Wire, bad: bytes, status: int
) -> None:
    """The slow one's answer comes first and whole, then the refusal; what follows is dropped."""
    wire.send(get("/gated") + get("/second") + bad + SMUGGLED)
    time.sleep(0.05)
    edge.open_gate()
    assert [wire.answer().json["path"] for _ in range(2)] == ["/gated", "/second"]
    assert wire.answer().is_refusal(status)
    assert wire.has_ended()
    assert edge.app.requests == ["/gated", "/second"]


@pytest.mark.parametrize(
    "first", [get("/", "Connection: close"), b"GET / HTTP/1.0\r\n\r\n", get("/closes")]
)
def test_behind_the_last_request_nothing_is_executed(edge: Edge, wire: Wire, first: bytes) -> None:
    """Whoever says that the connection ends, client or application, is taken at their word."""
    wire.send(first + SMUGGLED * 10)
    assert wire.answer().closes
    assert wire.has_ended()
    assert len(edge.app.requests) == 1


def test_a_flood_of_pipelined_requests_does_not_pile_up(edge: Edge, wire: Wire) -> None:
    """What waits for its turn waits on the client's side: it is read as it is answered."""
    flood = threading.Thread(target=wire.send_while_taken, args=(get() * 1_000, 10_000))
    flood.start()
    for _ in range(500):
        wire.answer()
    (connection,) = edge.server.server_state.connections
    assert isinstance(connection, HardenedProtocol)
    assert not connection.pipeline
    assert len(vars(connection)["_received"]) < 600_000
    wire.socket.shutdown(socket.SHUT_RDWR)  # which ends a `send` that waits, as closing does not
    flood.join()


@pytest.mark.parametrize("path", ["/", "/closes"])
def test_a_small_answer_is_one_packet(edge: Edge, path: str) -> None:
    """Head and body are sent together: the client has all of it with its first read."""
    for _ in range(20):
        with edge.connect() as wire:
            wire.send(get(path))
            head, _, body = wire.socket.recv(1 << 16).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert json.loads(body)["path"] == path


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("value", [b"a", b"a\r\nb: c", b"a\n", b"\ra"])
def test_no_header_field_has_two_lines(loop: str, value: bytes) -> None:
    """Such an answer becomes 500, and no part of the field is sent."""

    async def answer(_: Request) -> Response:
        return Response(b"", [(b"content-length", b"0"), (b"x", value)])

    api = Api([Operation("one", "GET", "/", None)], {"one": Handler(answer, None)}, OpenKeys())
    with running_edge(loop, BOUNDS, api) as edge, edge.connect() as wire:
        answered = wire.ask(get())
        if value == b"a":
            assert (answered.status, answered.headers["x"]) == (200, "a")
        else:
            assert (answered.status, answered.json["code"]) == (500, "internal-error")
            assert {"x", "b"}.isdisjoint(answered.headers)
        assert answered.headers["x-request-id"]


# -- clients that do not read, or leave -----------------------------------------------------


def test_a_client_that_never_reads_is_cut_off(impatient: Edge) -> None:
    """Its connection ends though it is open at the client's side, and its answers are dropped."""
    with impatient.connect() as wire:
        wire.send(get("/big") * 4)
        assert eventually(lambda: bool(impatient.app.requests))
        assert eventually(impatient.is_quiet)


def test_a_slow_reader_gets_all_of_the_last_answer(edge: Edge, wire: Wire) -> None:
    """The moment that a closing connection lingers is counted from the end of the answer."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    wire.send(get("/big", "Connection: close"))
    taken = 0
    while chunk := wire.socket.recv(1 << 16):
        taken += len(chunk)
        time.sleep(0.006)
    assert taken > BIG


def test_a_client_may_end_its_side_and_still_read(edge: Edge, wire: Wire) -> None:
    """The answer under way reaches a client that half-closes; one without a request is closed."""
    wire.send(get("/gated"))
    wire.socket.shutdown(socket.SHUT_WR)
    time.sleep(0.05)
    edge.open_gate()
    assert wire.answer().json["path"] == "/gated"
    assert wire.has_ended()
    with edge.connect() as silent:
        silent.socket.shutdown(socket.SHUT_WR)
        assert silent.has_ended()


@pytest.mark.parametrize("sent", [b"", get()[:9], get("/gated"), get("/gated") * 50, get("/big")])
def test_a_client_may_vanish_at_any_time(edge: Edge, sent: bytes) -> None:
    for path in ("", "Content-Length: 5\r\n"):
        wire = edge.connect()
        wire.send(sent.replace(b"Host", path.encode() + b"Host"))
        time.sleep(0.02)
        wire.reset()
    edge.open_gate()


# -- other protocols ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
    ],
)
def test_an_upgrade_is_answered_in_http_1(edge: Edge, wire: Wire, fields: tuple[str, ...]) -> None:
    """It is an ordinary request, and the last; what follows in another protocol is dropped."""
    wire.send(get("/", *fields) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED)
    answer = wire.answer()
    assert (answer.status, answer.closes) == (200, True)
    assert wire.has_ended()
    assert edge.app.requests == ["/"]


# -- paths ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a%2Fb", f"/a{ENCODED_SLASH}b"),
        ("/a%2fb/c%2F", f"/a{ENCODED_SLASH}b/c{ENCODED_SLASH}"),
        ("/a%2Fb?c%2Fd", f"/a{ENCODED_SLASH}b"),
        ("/a?c%2Fd", "/a"),
        ("/a%252Fb", "/a%2Fb"),
        ("/%C3%2F%A9", f"/\ufffd{ENCODED_SLASH}\ufffd"),
        ("/%C3%A9%2F", f"/é{ENCODED_SLASH}"),
        ("/%ED%B0%AF", "/\ufffd\ufffd\ufffd"),
        ("/%ed%b0%af%2F", f"/\ufffd\ufffd\ufffd{ENCODED_SLASH}"),
        ("/%C0%AF", "/\ufffd\ufffd"),
        ("/%E0%80%AF", "/\ufffd\ufffd\ufffd"),
        ("/%u002F", "/%u002F"),
        ("/\\udc2f", "/\\udc2f"),
        ("/a%00b", "/a\0b"),
        ("/a%0A%2Fb", f"/a\n{ENCODED_SLASH}b"),
        ("/%FF", "/\ufffd"),
        ("/%", "/%"),
        ("/%zz", "/%zz"),
        ("/%2", "/%2"),
        ("/a/../b", "/a/../b"),
        ("//a", "//a"),
        ("http://here/a%2Fb", f"/a{ENCODED_SLASH}b"),
    ],
)
def test_an_encoded_slash_is_no_border_of_a_segment(wire: Wire, target: str, path: str) -> None:
    """It becomes ENCODED_SLASH; everything else is decoded once, and invalid UTF-8 becomes
    U+FFFD."""
    answer = wire.ask(get(target))
    assert answer.json["path"] == path


# -- how many -------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_one_address_has_a_share_of_the_connections(loop: str) -> None:
    """What is above it is told so; others are served, and a closed connection counts no more."""
    with running_edge(loop, ClientLimits(per_address=5, linger=0.3, idle=5)) as edge:
        wires = [edge.connect() for _ in range(5)]
        assert all(wire.ask(get()).status == 200 for wire in wires)
        for _ in range(3):
            with edge.connect() as refused:
                answer = refused.answer()
                assert answer.is_refusal(503)
                assert answer.headers["retry-after"] == "1"
                assert refused.has_ended()
        with edge.connect(source="127.0.0.2") as other:
            assert other.ask(get()).status == 200
        assert all(wire.ask(get()).status == 200 for wire in wires)
        for wire in wires:
            wire.socket.close()
        assert eventually(edge.is_quiet)
        with edge.connect() as wire:
            assert wire.ask(get()).status == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_1200_silent_connections_are_in_nobodys_way(loop: str) -> None:
    """A good request is answered while they wait for their deadline."""
    with running_edge(loop, ClientLimits(head_seconds=8)) as edge:
        silent = [edge.connect() for _ in range(1_200)]
        assert eventually(lambda: len(edge.server.server_state.connections) == 1_200)
        with edge.connect() as wire:
            assert wire.ask(get()).status == 200
        for idle in silent:
            idle.socket.close()
        assert eventually(edge.is_quiet)


# -- garbage -------------------------------------------------------------------------------

ODD_REQUESTS = {
    "options star": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute form": b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute form, other scheme": b"GET gopher://a:99999/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect with a path": b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no slash": b"GET version HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "only a query": b"GET ? HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "http/0.9": b"GET /\r\n\r\n",
    "http/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "rtsp": b"DESCRIBE rtsp://a/b RTSP/1.0\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "socks": b"\x05\x01\x00",
    "proxy protocol": b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n" + get(),
    "nul in the target": b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "nul in a name": b"GET / HTTP/1.1\r\nHost: a\r\nx\0: 1\r\n\r\n",
    "nul in a value": b"GET / HTTP/1.1\r\nHost: a\r\nx: \0\r\n\r\n",
    "bare lf": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare lf in a field": b"GET / HTTP/1.1\r\nHost: a\nx: 1\r\n\r\n",
    "bare cr": b"GET / HTTP/1.1\r\nHost: a\rx: 1\r\n\r\n",
    "obs-fold": b"GET / HTTP/1.1\r\nHost: a\r\nx: 1\r\n 2\r\n\r\n",
    "space before a colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: a\r\nx\r\n\r\n",
    "high bytes in the target": "GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "a surrogate in the target": b"GET /\xed\xb0\xaf HTTP/1.1\r\nHost: a\r\n\r\n",
    "high bytes in a value": "GET / HTTP/1.1\r\nHost: a\r\nx: é\r\n\r\n".encode(),
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a lower case method": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "zeros": bytes(1_000),
    "high bytes": b"\xff" * 1_000,
}


def ends_well(edge: Edge, sent: bytes) -> list[int]:
    """The statuses of the answers to *sent*; fails unless each is whole and the end is clean."""
    statuses = []
    with edge.connect() as wire:
        wire.send_while_taken(sent, 1)
        wire.socket.shutdown(socket.SHUT_WR)
        try:
            while True:
                answer = wire.answer()
                statuses.append(answer.status)
                assert answer.status == 200 or answer.is_refusal(answer.status)
        except EOFError as end:
            assert end.args == (b"",)  # noqa: PT017
    return statuses


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_an_odd_request_is_answered_or_closed(edge: Edge, name: str) -> None:
    """What is not HTTP is refused at once; what is odd but HTTP is the application's business."""
    statuses = ends_well(edge, ODD_REQUESTS[name])
    assert statuses in ([], [200], [400], [505])
    assert len(edge.app.requests) == statuses.count(200)
    assert not any(ENCODED_SLASH in path for path in edge.app.requests)
    with edge.connect() as wire:
        assert wire.ask(get()).status == 200


def test_mutated_requests_are_answered_or_closed(edge: Edge) -> None:
    """A few hundred good requests, each spoilt at random in the same way in every run."""
    rng = random.Random(2)
    good = get("/a%2Fb", "x-api-key: k", "Content-Length: 0") + get("/second")
    spoilers = [b"\0", b"\r", b"\n", b"\r\n\r\n", b" ", b":", b"%", b"\xff", b"5", b"HTTP/1.0"]
    for _ in range(300):
        spoilt = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(spoilt))
            spoilt[at : at + rng.randint(0, 3)] = rng.choice(spoilers)
        edge.app.requests.clear()
        statuses = ends_well(edge, bytes(spoilt))
        assert len(edge.app.requests) == statuses.count(200), spoilt
        assert len(statuses) <= len(re.findall(b"\r\n\r\n", spoilt)) + 1
