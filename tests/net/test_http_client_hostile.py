"""A server that sends what is no answer: it is hung up on, and nobody else waits meanwhile.

Both clients are asked, the operator's and the guarded one; the servers send at full speed from
threads of their own, and the lag is the CPU time of the loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import aiohttp
import pytest

from content_gateway.concurrency.loop_turns import Turns
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamTimeout
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import Answer, HttpClient
from content_gateway.net.response_protocol import (
    MAX_FRAMING_BYTES,
    MAX_HEAD_BYTES,
    MAX_INTERIM,
    ResponseProtocol,
    with_bounds,
)
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.flood import Flood, flooding
from tests.lag import MOST_LAG, loop_lag
from tests.waiting import until

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SMALL = OK + b"Content-Length: 1\r\n\r\nx"
MOST_BYTES = 1 << 20
PER_SERVER = 4  # requests at once, as to off-chain gateways

PROMISES = {
    100: b"HTTP/1.1 100 Continue\r\n\r\n",
    102: b"HTTP/1.1 102 Processing\r\n\r\n",
    103: b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n",
    199: b"HTTP/1.1 199 What\r\n\r\n",
    101: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
}
HOSTILE = {
    "header fields": (OK, b"X: 1\r\n" * 10_000),
    "one header field": (OK + b"X: ", b"a" * 65_536),
    "a status line": (b"HTTP/1.1 200 ", b"a" * 65_536),
    "empty lines": (b"", b"\r\n" * 30_000),
    "one chunk extension": (CHUNKED + b"1;", b"a" * 65_536),
    "chunk extensions": (CHUNKED, b"1;a=b\r\nx\r\n" * 6_000),
    "a chunk size": (CHUNKED, b"0" * 65_536),
    "trailers": (CHUNKED + b"0\r\n", b"X: 1\r\n" * 10_000),
    "one-byte chunks": (CHUNKED, b"1\r\nx\r\n" * 11_000),
    "one-byte chunks late": (
        CHUNKED + b"4e20\r\n" + bytes(20_000) + b"\r\n",
        b"1\r\nx\r\n" * 60_000,
    ),
    "one-byte chunks behind large ones": (
        CHUNKED + (b"10000\r\n" + bytes(65_536) + b"\r\n") * 8,
        b"1\r\nx\r\n" * 60_000,
    ),
    "a length": (OK + b"Content-Length: 99999999999999\r\n\r\n", bytes(65_536)),
    "no length": (OK + b"Connection: close\r\n\r\n", bytes(65_536)),
}


@pytest.fixture(params=["operator's", "guarded"])
def is_guarded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "guarded")


@asynccontextmanager
async def client_of(flood: Flood, is_guarded: bool) -> AsyncIterator[HttpClient]:
    async with HttpClient(Guard(local_gateways=[flood.url]) if is_guarded else None) as outbound:
        yield outbound


async def ask(flood: Flood, is_guarded: bool, *, seconds: float = 30) -> Answer:
    """What the client makes of the flood, whose loop it must not hold."""
    async with client_of(flood, is_guarded) as outbound, loop_lag() as lag:
        try:
            return await outbound.ask("GET", flood.url + "/", seconds=seconds, max_bytes=MOST_BYTES)
        finally:
            assert lag.worst < MOST_LAG


@pytest.mark.parametrize("status", PROMISES)
@pytest.mark.parametrize("at_once", [1, 4_000], ids=["one by one", "in one segment"])
async def test_promises_without_end_are_not_heard(
    status: int, at_once: int, is_guarded: bool
) -> None:
    """Interim answers hold the loop for as long as they come: nobody listens to them all."""
    with flooding(b"", PROMISES[status] * at_once) as flood:
        with pytest.raises(InvalidUpstreamResponse, match="again and again"):
            await ask(flood, is_guarded)
        assert flood.connections == 1


async def test_a_trickle_of_promises_ends_as_well(is_guarded: bool) -> None:
    """Slow ones cost no time, and are counted all the same: the deadline is not awaited."""
    with flooding(b"", PROMISES[103], pause=0.01) as flood:
        with pytest.raises(InvalidUpstreamResponse, match="again and again"):
            await ask(flood, is_guarded)
        assert flood.sent <= 2_000 * len(PROMISES[103])


@pytest.mark.parametrize("count", [1, MAX_INTERIM])
async def test_a_few_promises_are_kept(count: int, is_guarded: bool) -> None:
    """RFC 9110, section 15.2: a client takes interim answers that it did not expect."""
    with flooding(PROMISES[103] * count + SMALL) as flood:
        assert (await ask(flood, is_guarded)).body == b"x"


@pytest.mark.parametrize("case", HOSTILE)
async def test_what_is_no_answer_is_not_read(case: str, is_guarded: bool) -> None:
    """Whatever the part that has no end, it is left early, and the loop is not held."""
    with flooding(*HOSTILE[case]) as flood, pytest.raises(InvalidUpstreamResponse):
        await ask(flood, is_guarded)


@pytest.mark.parametrize("count", [64, 256])
async def test_many_at_once_take_turns(count: int, is_guarded: bool) -> None:
    """Floods of tiny chunks that are asked together, and ready together, take turns."""
    first, ever = HOSTILE["one-byte chunks"]
    # Each has a server of its own, as the client asks no server for so much at once.
    with ExitStack() as floods:
        urls = [floods.enter_context(flooding(first, ever)).url for _ in range(count // PER_SERVER)]
        guard = Guard(local_gateways=urls) if is_guarded else None
        limits = PoolLimits(
            per_server=PER_SERVER, seconds=60
        )  # of patience: the machine may be busy
        async with HttpClient(guard, limits=limits) as outbound:
            await asyncio.gather(*(outcome(outbound, url) for url in urls))  # what is done once
            async with loop_lag() as lag:
                failed = await asyncio.gather(
                    *(outcome(outbound, url) for url in urls * PER_SERVER)
                )
    assert all(isinstance(wrong, InvalidUpstreamResponse) for wrong in failed)
    assert lag.worst < MOST_LAG


async def outcome(outbound: HttpClient, url: str) -> object:
    """The answer of the server at *url*, or why there is none."""
    try:
        return await outbound.ask("GET", url + "/", seconds=60, max_bytes=MOST_BYTES)
    except UpstreamError as wrong:
        return wrong


@pytest.mark.parametrize("count", [64, 256])
async def test_many_good_ones_take_turns(count: int, is_guarded: bool) -> None:
    """Nor do requests that begin together, and whose answers are ready together, hold the loop."""
    with flooding(SMALL) as flood:
        limits = PoolLimits(in_all=count, per_server=count)
        guard = Guard(local_gateways=[flood.url]) if is_guarded else None
        async with HttpClient(guard, limits=limits) as outbound:
            await outcome(outbound, flood.url)
            async with loop_lag() as lag:
                found = await asyncio.gather(*(outcome(outbound, flood.url) for _ in range(count)))
    assert [getattr(answer, "body", None) for answer in found] == [b"x"] * count
    assert lag.worst < MOST_LAG


async def test_a_drip_meets_the_deadline(is_guarded: bool) -> None:
    """A body of one byte now and then keeps nobody but whoever asked for it."""
    head = OK + b"Content-Length: 9999\r\n\r\n"
    with flooding(head, b"x", pause=0.005) as flood, pytest.raises(UpstreamTimeout):
        await ask(flood, is_guarded, seconds=0.3)


async def test_a_head_has_an_end(is_guarded: bool) -> None:
    """A head of fields that are each allowed is refused where their sum is not."""
    field = b"X: " + b"a" * 8_000 + b"\r\n"
    fits, too_long = MAX_HEAD_BYTES // len(field), MAX_HEAD_BYTES // len(field) + 1
    end = b"Content-Length: 1\r\n\r\nx"
    with flooding(OK + field * (fits - 1) + end) as flood:
        assert (await ask(flood, is_guarded)).body == b"x"
    long = flooding(OK + field * too_long + end)
    with long as flood, pytest.raises(InvalidUpstreamResponse, match="too long"):
        await ask(flood, is_guarded)


@pytest.mark.parametrize("size", [10, 20, 1_000])
async def test_small_chunks_are_read(size: int, is_guarded: bool) -> None:
    """Framing is free where a chunk is twice as long: a stream of short lines is no attack."""
    count = 40 * MAX_FRAMING_BYTES // size
    chunks = b"%x\r\n%b\r\n" % (size, bytes(size)) * count
    with flooding(CHUNKED + chunks + b"0\r\n\r\n") as flood:
        assert len((await ask(flood, is_guarded)).body) == size * count


async def test_a_slow_reader_is_waited_for(is_guarded: bool) -> None:
    """What the wire brings while nobody reads is no waste: it has not been looked at."""
    size = 8 << 20
    with flooding(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size)) as flood:
        async with (
            client_of(flood, is_guarded) as outbound,
            outbound.stream("GET", flood.url + "/", seconds=60, idle_seconds=60) as stream,
        ):
            received = 0
            async with loop_lag() as lag:
                async for chunk in stream.chunks():
                    received += len(chunk)
            assert (received, lag.worst < MOST_LAG) == (size, True)


@pytest.mark.parametrize(
    "more",
    [SMALL, SMALL * 10_000, b"HTTP/1.1 408 Too late\r\n\r\n", b"\r\n" * 50],
)
async def test_nobody_takes_what_nobody_asked_for(more: bytes, is_guarded: bool) -> None:
    """Bytes behind an answer are not the answer to the next request (RFC 9112, section 9.2)."""
    asked = OK + b"Content-Length: 5\r\n\r\nasked"
    with flooding(asked + more) as flood:
        async with client_of(flood, is_guarded) as outbound, loop_lag() as lag:
            for _ in range(3):
                answer = await outbound.ask(
                    "GET", flood.url + "/", seconds=30, max_bytes=MOST_BYTES
                )
                assert answer.body == b"asked"
        assert lag.worst < MOST_LAG


async def test_what_comes_late_is_not_the_next_answer(is_guarded: bool) -> None:
    """Nor do they become one when they arrive on a connection that is idle: it is given up."""
    asked = OK + b"Content-Length: 5\r\n\r\nasked"
    with flooding(asked, SMALL, pause=0.02) as flood:
        async with client_of(flood, is_guarded) as outbound:
            for connections in (1, 2, 3):
                answer = await outbound.ask("GET", flood.url + "/", seconds=30, max_bytes=9)
                assert (answer.body, flood.connections) == (b"asked", connections)
                await until(lambda: flood.hung_up == flood.connections)


async def test_the_place_in_aiohttp_is_there() -> None:
    """The one private name that is used: an upgrade that drops it must not pass unseen."""
    connector = aiohttp.TCPConnector()
    assert "_factory" in vars(connector)
    assert isinstance(with_bounds(connector, Turns())._factory(), ResponseProtocol)
    await connector.close()


async def test_it_is_the_servers_fault(is_guarded: bool) -> None:
    """A flood is an upstream's failure, whichever of the two clients meets it."""
    with flooding(b"", PROMISES[100] * 100) as flood, pytest.raises(UpstreamError):
        await ask(flood, is_guarded)
