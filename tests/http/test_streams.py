"""Streamed answers on a real socket: never ended as if they were whole, never piled up.

The service's own routes with one operation that streams, on both event loops."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import structlog

from content_gateway.api_keys import OpenKeys
from content_gateway.errors import NotFound
from content_gateway.http.asgi import Api
from content_gateway.http.limits import ClientLimits
from content_gateway.http.messages import Handler, Request, Response, ResponseStream
from content_gateway.http.openapi import Operation
from tests.http.raw import LOOPS, Edge, Wire, eventually, get, lines_of, running_edge

BOUNDS = ClientLimits(head_seconds=5, idle=2, linger=0.3, drain=0.1, stop=1)
PIECE = bytes(100_000)
END = b"0\r\n\r\n"


class Source:
    """Streams in the way that the path says; `made` counts pieces, `closed` ended streams."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.made = 0
        self.closed = 0
        self.streams: list[AsyncIterator[bytes]] = []  # held, so that no collector closes them

    async def answer(self, request: Request) -> Response | ResponseStream:
        self.asked += 1
        if request.argument == "later":
            await asyncio.sleep(0.3)
            return Response(b"", [(b"content-length", b"0")])
        self.streams.append(self.pieces(request.argument))
        return ResponseStream(self.streams[-1], [(b"content-type", b"text/plain")])

    async def pieces(self, way: str) -> AsyncIterator[bytes]:
        try:
            if way == "absent":
                raise NotFound
            for number in range(1_000 if way == "endless" else 3):
                if way == "fails" and number == 2:
                    raise NotFound
                if way == "ticks":
                    await asyncio.sleep(0.02)
                self.made += 1
                yield b"" if way == "gaps" and number == 1 else PIECE
            while way == "ticks":
                await asyncio.sleep(0.02)
                yield b"."
        finally:
            self.closed += 1

    def api(self) -> Api:
        operations = [Operation("stream", "GET", "/stream/{way}", None)]
        api = Api(operations, {"stream": Handler(self.answer, None)}, OpenKeys())
        self.asked = 0
        self.counted = api.traffic.route("/stream/{way}").answers
        return api


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


@pytest.fixture(scope="module", params=LOOPS)
def shared(request: pytest.FixtureRequest, source: Source) -> Iterator[Edge]:
    with running_edge(request.param, BOUNDS, source.api()) as edge:
        yield edge


@pytest.fixture
def edge(shared: Edge, source: Source, caplog: pytest.LogCaptureFixture) -> Iterator[Edge]:
    """The server; afterwards it must be as quiet as before, and every stream closed."""
    source.forget()
    yield shared
    assert eventually(shared.is_quiet)
    assert source.closed == 1
    assert eventually(lambda: source.counted.total() == source.asked)
    assert not shared.complaints
    assert not lines_of(caplog.records)


@pytest.mark.parametrize(("way", "size"), [("whole", 300_000), ("gaps", 200_000)])
def test_a_stream_arrives_whole(wire: Wire, way: str, size: int) -> None:
    """In chunks, up to the last chunk; an empty piece does not end the stream."""
    wire.send(get(f"/stream/{way}", "Connection: close"))
    head = wire.head()
    assert head.startswith("HTTP/1.1 200 ")
    assert "transfer-encoding: chunked" in head
    assert "x-request-id: " in head
    body = wire.rest()
    assert body.count(b"\0") == size
    assert body.endswith(END)


def test_the_connection_stays_behind_a_stream(wire: Wire, source: Source) -> None:
    wire.send(get("/stream/whole"))
    wire.head()
    wire.through(END)
    assert wire.ask(get("/nowhere")).status == 404


def test_a_stream_that_fails_is_never_ended_well(edge: Edge, wire: Wire) -> None:
    """It ends with a reset, and the reason is in the log."""
    with structlog.testing.capture_logs() as logs:
        wire.send(get("/stream/fails"))
        assert wire.head().startswith("HTTP/1.1 200 ")
        with pytest.raises(ConnectionResetError):
            wire.rest()
        assert eventually(edge.is_quiet)
    assert [entry["event"] for entry in logs] == ["a stream broke off"]


@pytest.mark.parametrize(
    ("way", "status"), [("whole", 200), ("absent", 404), ("fails", 0), ("endless", 0), ("ticks", 0)]
)
def test_only_what_was_sent_to_its_end_counts_by_its_status(
    wire: Wire, source: Source, way: str, status: int
) -> None:
    """What broke off, and what its client has left, counts as 0."""
    before = Counter(source.counted)
    with structlog.testing.capture_logs():
        wire.send(get(f"/stream/{way}"))
        wire.head()
        if status:
            wire.through(END if status == 200 else b"}")
        else:
            wire.reset()
        assert eventually(lambda: source.counted != before)
    assert source.counted - before == {("GET", status): 1}


def test_an_answer_whose_client_has_left_counts_as_none(
    edge: Edge, wire: Wire, source: Source
) -> None:
    before = Counter(source.counted)
    wire.send(get("/stream/later"))
    assert eventually(lambda: not edge.is_quiet())
    wire.reset()
    assert eventually(lambda: source.counted != before)
    assert source.counted - before == {("GET", 0): 1}
    source.closed = 1  # it was no stream


def test_a_stream_that_fails_at_once_is_a_problem(wire: Wire) -> None:
    """As long as nothing was sent there is a better answer than half of one."""
    answer = wire.ask(get("/stream/absent"))
    assert (answer.status, answer.json["code"]) == (404, "not-held")


def test_a_slow_reader_is_waited_for(wire: Wire, source: Source) -> None:
    """What it has not read is not made: 100 MB do not wait in memory."""

    def stands_still() -> bool:
        made = source.made
        time.sleep(0.2)
        return made == source.made

    wire.send(get("/stream/endless"))
    wire.head()
    assert eventually(stands_still)
    assert source.made < 200  # a few MB of it are in the kernel's buffers
    wire.reset()


@pytest.mark.parametrize("way", ["endless", "ticks"])
def test_a_client_that_leaves_ends_the_stream(
    edge: Edge, wire: Wire, source: Source, way: str
) -> None:
    """Soon, and without anything being logged."""
    with structlog.testing.capture_logs() as logs:
        wire.send(get(f"/stream/{way}"))
        wire.head()
        wire.reset()
        assert eventually(lambda: source.closed == 1)
        assert eventually(edge.is_quiet)
    assert source.made < 1_000
    assert not logs


def test_a_client_that_never_reads_is_let_go(edge: Edge, wire: Wire, source: Source) -> None:
    wire.send(get("/stream/endless"))
    assert eventually(lambda: source.closed == 1)
    assert source.made < 1_000


def test_http_1_0_gets_no_stream(wire: Wire, source: Source) -> None:
    """It could not tell half an answer from a whole one."""
    answer = wire.ask(b"GET /stream/whole HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.json["code"]) == (505, "http-version")
    assert source.made == 0
    source.closed = 1  # it was never begun


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_does_not_wait_for_ever(loop: str) -> None:
    """A stream that goes on is cut off, without the end that would say it was all."""
    source = Source()
    with running_edge(loop, BOUNDS, source.api()) as edge, edge.connect() as wire:
        wire.send(get("/stream/ticks"))
        wire.head()
        edge.begin_to_stop()
        received = b""
        with suppress(ConnectionResetError):
            received = wire.rest()
        assert not received.endswith(END)
        assert edge.has_stopped()
    assert source.closed == 1
