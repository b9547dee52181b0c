"""Asking one gateway after the other: what is sent, what ends the search, what moves it on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.gateways import (
    MAX_BODY_BYTES,
    MAX_URLS,
    Attempts,
    GatewayFailed,
    GatewayRefused,
    GatewayRequest,
    OffchainGateways,
    read_gateway_answer,
)
from content_gateway.net.http_client import MAX_IN_FLIGHT, Answer, HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.gateway import Asked, Gateway, running_gateway
from tests.fakes.miniature import Mood

SENDER = bytes.fromhex("AbCdEf" + "12" * 17)
QUESTION = bytes.fromhex("C0FFEE00")
ASKED_BY_GET = Asked("GET", "0x" + SENDER.hex(), QUESTION)
FAILING: list[Mood] = [
    "dark",
    "hang",
    "html",
    "huge",
    "garbage",
    "cut",
    "500",
    "503",
    "redirect",
]


class World:
    """Two gateways that hold the same answer, and the client that may ask them."""

    def __init__(self, first: Gateway, second: Gateway, outbound: HttpClient) -> None:
        self.first, self.second = first, second
        self._gateways = OffchainGateways(outbound)
        for gateway in (first, second):
            gateway.answers[QUESTION] = b"answer"

    async def ask(self, *urls: str, seconds: float = 5, attempts: Attempts | None = None) -> bytes:
        """What the gateways at *urls*, or else both in order, answer to QUESTION."""
        chosen = urls or (self.first.by_get, self.second.by_get)
        request = GatewayRequest(SENDER, chosen, QUESTION)
        return await self._gateways.ask(request, seconds=seconds, attempts=attempts)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_gateway())
        second = await stack.enter_async_context(running_gateway())
        guard = Guard(local_gateways=[first.url, second.url])
        yield World(first, second, await stack.enter_async_context(HttpClient(guard)))


async def test_a_url_with_data_is_fetched(world: World) -> None:
    """Sender and data stand in the URL, in lower case; a second URL is not asked."""
    assert await world.ask() == b"answer"
    assert world.first.asked == [ASKED_BY_GET]
    assert world.first.requests == [f"/0x{SENDER.hex()}/0x{QUESTION.hex()}.json"]
    assert world.second.requests == []


async def test_a_url_without_data_is_posted_to(world: World) -> None:
    """Sender and data are then the body, in JSON; the sender may be in the URL as well."""
    assert await world.ask(world.first.by_post) == b"answer"
    assert world.first.asked == [Asked("POST", "0x" + SENDER.hex(), QUESTION)]


@pytest.mark.parametrize("more", ["{data}" * 300, "{sender}"])
async def test_a_template_is_filled_once(world: World, more: str) -> None:
    """A template cannot make a URL that is many times longer than what was asked for."""
    with pytest.raises(InvalidUpstreamResponse):
        await world.ask(world.first.url + "/{sender}/{data}" + more)
    assert world.first.requests == []


@pytest.mark.parametrize("mood", FAILING)
async def test_after_a_failure_the_next_url_is_asked(world: World, mood: Mood) -> None:
    """Errors of the server and of the network, and whatever is no answer, are passed over."""
    world.first.misbehave(mood)
    assert await world.ask(seconds=3 if mood == "hang" else 60) == b"answer"
    assert world.second.asked == [ASKED_BY_GET]


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"null",
        b"[]",
        b'"0x00"',
        b"{}",
        b'{"data": null}',
        b'{"data": 1}',
        b'{"data": "00"}',
        b'{"data": "0x0"}',
        b'{"data": "0x 00"}',
        b'{"data": "0x00 "}',
        b'{"data": "0xzz"}',
        '{"data": "0x００"}'.encode(),
        b'{"data": ["0x00"]}',
        b'{"message": "not found"}',
        b'{"data": "0x00"',
        b'{"data": "0x\xff"}',
        b"[" * 50_000,
    ],
)
async def test_what_is_no_answer_is_passed_over(world: World, says: bytes) -> None:
    """Only `data` with whole bytes in hexadecimal is an answer; the status alone is none."""
    world.first.says = says
    assert await world.ask() == b"answer"
    with pytest.raises(InvalidUpstreamResponse):
        await world.ask(world.first.by_get)


@pytest.mark.parametrize(
    ("mood", "error", "status"),
    [("404", GatewayRefused, 404), ("429", GatewayFailed, 429)],
)
async def test_a_refusal_ends_the_search(
    world: World, mood: Mood, error: type[UpstreamError], status: int
) -> None:
    """After 4xx nobody else is asked (EIP-3668), and the refusal is no empty answer."""
    world.first.misbehave(mood)
    with pytest.raises(UpstreamError) as failed:
        await world.ask()
    refused = failed.value
    assert type(refused) is error
    assert isinstance(refused, GatewayRefused | GatewayFailed)
    assert refused.status == status
    assert world.second.requests == []


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("dark", UpstreamUnavailable),
        ("500", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("504", UpstreamTimeout),  # a proxy before the gateway says that it did not answer
        ("html", InvalidUpstreamResponse),
        ("huge", InvalidUpstreamResponse),
        ("garbage", InvalidUpstreamResponse),
        ("redirect", InvalidUpstreamResponse),
        ("404", InvalidUpstreamResponse),
    ],
)
async def test_the_last_failure_is_told(
    world: World, mood: Mood, error: type[UpstreamError]
) -> None:
    """When nobody answers, the caller hears how the last one failed."""
    world.first.misbehave("503")
    world.second.misbehave(mood)
    with pytest.raises(error):
        await world.ask(seconds=2 if mood == "hang" else 60)
    assert world.second.requests


async def test_a_silent_gateway_leaves_time_for_the_next(world: World) -> None:
    """All URLs share the seconds, and the first one does not use them up."""
    world.first.misbehave("hang")
    assert await world.ask(seconds=3) == b"answer"
    world.second.misbehave("hang")
    with pytest.raises(UpstreamTimeout):
        await world.ask(seconds=0.2)


async def test_without_time_nobody_is_asked(world: World) -> None:
    """With no time left, no request is sent."""
    with pytest.raises(UpstreamTimeout):
        await world.ask(seconds=0)
    assert world.first.requests == []


async def test_without_urls_there_is_nobody_to_ask(world: World) -> None:
    """EIP-3668 lets the client choose then; this one does not."""
    with pytest.raises(UpstreamUnavailable):
        await OffchainGateways(HttpClient()).ask(GatewayRequest(SENDER, (), QUESTION), seconds=1)


async def test_only_so_many_urls_are_tried(world: World) -> None:
    """A contract cannot have us try its whole list."""
    world.first.misbehave("500")
    with pytest.raises(GatewayFailed):
        await world.ask(*[world.first.by_get] * MAX_URLS, world.second.by_get)
    assert len(world.first.requests) == MAX_URLS
    assert world.second.requests == []


async def test_the_fifth_gateway_is_asked_like_the_first(world: World) -> None:
    """EIP-3668 knows no number of URLs: four that fail, or hang, leave time for one behind them."""
    world.first.misbehave("500")
    assert await world.ask(*[world.first.by_get] * 4, world.second.by_get) == b"answer"
    world.first.misbehave("hang")
    assert await world.ask(*[world.first.by_get] * 4, world.second.by_get, seconds=4) == b"answer"


async def test_a_lookup_has_so_many_attempts(world: World) -> None:
    """Whatever a contract makes of rounds and batches, it cannot have us ask without end."""
    world.first.misbehave("500")
    attempts = Attempts(MAX_URLS + 3)
    with pytest.raises(GatewayFailed):
        await world.ask(*[world.first.by_get] * MAX_URLS, attempts=attempts)
    with pytest.raises(GatewayFailed):
        await world.ask(*[world.first.by_get] * MAX_URLS, attempts=attempts)
    assert len(world.first.requests) == MAX_URLS + 3
    with pytest.raises(UpstreamUnavailable):
        await world.ask(world.first.by_get, attempts=attempts)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/{sender}/{data}",
        "https://[::1]/{data}",
        "http://gateway.example/{data}",
        "https://{data}/",
        "ipfs://bafy/{data}",
        "data:application/json,{}",
        "\0",
        "",
    ],
)
async def test_a_url_that_may_not_be_asked_is_a_failed_gateway(world: World, url: str) -> None:
    """The guard's refusals are failures like any other: the next URL is asked."""
    assert await world.ask(url, world.second.by_get) == b"answer"
    with pytest.raises(UpstreamError):
        await world.ask(url)


async def test_the_cap_is_exact(world: World) -> None:
    """1 MiB of body is read, and not a byte more."""
    empty = len(b'{"data":"0x"}')
    hexadecimal = b"ab" * ((MAX_BODY_BYTES - empty) // 2)
    world.first.says = b'{"data":"0x%b"}' % hexadecimal
    world.first.says += b" " * (MAX_BODY_BYTES - len(world.first.says))
    assert await world.ask(world.first.by_get) == bytes.fromhex(hexadecimal.decode())
    world.first.says += b" "
    with pytest.raises(InvalidUpstreamResponse):
        await world.ask(world.first.by_get)


async def test_a_gateway_has_so_many_requests_at_once(world: World) -> None:
    """Twenty names behind one gateway are asked for four at a time."""
    world.first.delay = 0.02
    answers = await asyncio.gather(*(world.ask() for _ in range(20)))
    assert answers == [b"answer"] * 20
    assert world.first.most_at_once == MAX_IN_FLIGHT


async def test_a_busy_gateway_does_not_keep_others_waiting(world: World) -> None:
    """The bound on requests at once holds for each gateway by itself."""
    world.first.misbehave("hang")
    waiting = [asyncio.create_task(world.ask(world.first.by_get)) for _ in range(8)]
    await asyncio.sleep(0.05)
    assert await world.ask(world.second.by_get) == b"answer"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_log_names_the_host_alone(world: World) -> None:
    """A URL may hold a name that somebody looked up, or a key."""
    world.first.misbehave("500")
    with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamError) as failed:
        await world.ask(world.first.url + "/s3cr3t/{data}")
    assert logs[0]["host"] == world.first.url.removeprefix("http://")
    assert "s3cr3t" not in str(logs) + failed.value.detail
    assert QUESTION.hex() not in str(logs)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["0x00", "0x7", "0x"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["data", "message"]), inner),
)


@given(st.integers(100, 999), st.one_of(st.binary(), JSON.map(lambda v: json.dumps(v).encode())))
@settings(max_examples=500, deadline=None)
def test_any_answer_is_data_or_an_upstream_error(status: int, body: bytes) -> None:
    """Whatever arrives, it is read or refused, and never taken for nothing."""
    try:
        data = read_gateway_answer(Answer(status, "application/json", body))
    except UpstreamError:
        return
    assert 200 <= status < 300
    assert json.loads(body)["data"].lower() == "0x" + data.hex()
