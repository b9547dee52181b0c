"""The batch gateway that we are ourselves (ENSIP-21): parallel, bounded, and honest of failures."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from eth_abi.abi import decode

from content_gateway.errors import Overloaded
from content_gateway.ethereum.ccip import LOCAL_BATCH, MAX_BATCH, MAX_RESPONSE_BYTES
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.ethereum.lookups import World, query, running_world
from tests.fakes.ethereum import selector
from tests.fakes.miniature import Mood
from tests.waiting import until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


async def test_a_batch_is_looked_up_here_and_at_once(world: World) -> None:
    """The batch gateway of others is not asked (ENSIP-21), and the requests do not wait in line."""
    urls = [world.gateway.by_get]
    for number in range(4):
        world.gateway.answers[b"%d" % number] = b"answer %d" % number
    world.gateway.delay = 0.05
    failures, responses = await world.batch(*((urls, b"%d" % number) for number in range(4)))
    assert failures == (False,) * 4
    assert responses == (b"answer 0", b"answer 1", b"answer 2", b"answer 3")
    assert world.gateway.most_at_once == 4
    assert len(world.chain.calls) == 2


@pytest.mark.parametrize(
    ("mood", "status"),
    [
        ("404", 404),
        ("429", 429),
        ("500", 500),
        ("503", 503),
        ("dark", 503),
        ("hang", 504),
        ("html", 502),
        ("huge", 502),
        ("garbage", 502),
        ("cut", 503),
        ("redirect", 502),
    ],
)
async def test_a_failure_in_a_batch_is_an_element(world: World, mood: Mood, status: int) -> None:
    """One gateway's failure is told as such, beside the answer of another."""
    world.gateway.misbehave(mood)
    world.other.answers[b"good"] = b"answer"
    failures, responses = await world.batch(
        ([world.gateway.by_get], b"bad"),
        ([world.other.by_post], b"good"),
        seconds=2 if mood == "hang" else 60,
    )
    assert failures == (True, False)
    assert responses[1] == b"answer"
    assert responses[0][:4] == selector("HttpError(uint16,string)")
    assert decode(["uint16", "string"], responses[0][4:])[0] == status


async def test_a_private_address_in_a_batch_is_an_element(world: World) -> None:
    """What the guard refuses is a failed gateway, and no reason to fail the others."""
    world.gateway.answers[b"good"] = b"answer"
    failures, responses = await world.batch(
        (["https://127.0.0.1/{data}", "https://[::ffff:169.254.169.254]/{data}"], b"bad"),
        (["http://10.0.0.1/{data}"], b"bad"),
        ([world.gateway.by_get], b"good"),
    )
    assert failures == (True, True, False)
    statuses = [decode(["uint16", "string"], response[4:])[0] for response in responses[:2]]
    assert statuses == [503, 502]


async def test_large_answers_share_what_a_callback_takes(world: World) -> None:
    """Two answers of 1 MiB in hexadecimal are brought to the contract; a third is a failure."""
    half = MAX_RESPONSE_BYTES // 2
    for question, size in ((b"a", half - 100), (b"b", half - 100), (b"c", 201)):
        world.gateway.answers[question] = bytes(size)
    urls = [world.gateway.by_get]
    failures, responses = await world.batch((urls, b"a"), (urls, b"b"), seconds=60)
    assert (failures, {len(response) for response in responses}) == ((False, False), {half - 100})
    world.gateway.answers[b"b"] = bytes(half - 10)
    failures, _ = await world.batch((urls, b"a"), (urls, b"b"), (urls, b"c"), seconds=60)
    assert sorted(failures) == [False, False, True]


async def test_our_own_overload_is_no_element(world: World) -> None:
    """A contract is not told that a gateway failed where we had no connection for it."""
    world.other.misbehave("hang")
    guard = Guard(local_gateways=[world.other.url])
    async with HttpClient(guard, limits=PoolLimits(per_server=1, seconds=0.05)) as outbound:
        world.gateways = OffchainGateways(outbound)
        with pytest.raises(Overloaded):
            await world.batch(*([([world.other.by_get], b"bad")] * 2), seconds=60)


async def test_an_empty_batch_is_an_empty_answer(world: World) -> None:
    """Nothing asked, nothing answered, and no error."""
    assert await world.batch() == ((), ())


async def test_a_batch_in_a_batch_is_looked_up_here_too(world: World) -> None:
    """A contract that asks the Universal Resolver wraps its lookups twice."""
    world.gateway.answers[b"deep"] = b"answer"
    inner = query(([world.gateway.by_get], b"deep"), ([world.gateway.by_get], b"nothing"))
    failures, responses = await world.batch(([LOCAL_BATCH], inner))
    assert failures == (False,)
    assert decode(["bool[]", "bytes[]"], responses[0])[0] == (False, True)


async def test_batches_in_batches_are_counted_together(world: World) -> None:
    """However deep it is hidden, a batch makes no more than its eight requests."""
    world.gateway.answers[b"deep"] = b"answer"
    inner = query(*[([world.gateway.by_get], b"deep")] * MAX_BATCH)
    for _ in range(3):
        inner = query(*[([LOCAL_BATCH], inner)] * 3)
    await world.batch(([LOCAL_BATCH], inner))
    assert len(world.gateway.requests) < MAX_BATCH


async def test_a_caller_who_gives_up_ends_the_requests(world: World) -> None:
    """Nothing is left running behind a cancelled call."""
    world.gateway.misbehave("hang")
    before = len(asyncio.all_tasks())
    urls = [world.gateway.by_get]
    calling = asyncio.create_task(world.batch((urls, b"one"), (urls, b"two"), seconds=30))
    await until(lambda: len(world.gateway.requests) >= 2)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    world.gateway.end()
    await until(lambda: len(asyncio.all_tasks()) <= before)
