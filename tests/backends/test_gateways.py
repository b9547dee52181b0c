"""TrustlessGateways: bytes count only if they hash to the CID, whoever serves them."""

import asyncio

import pytest

from content_gateway.backends.embedded.gateways import WRONG_SECONDS, PeerScore, TrustlessGateways
from content_gateway.codecs.multiformats import digest_of
from content_gateway.errors import PinDeferred, PinFailed, UpstreamUnavailable
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.model.cid import RAW, Cid
from content_gateway.net.http_client import HttpClient
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.ipld.dags import raw
from tests.waiting import until

CID = raw(b"hello")[0]


@pytest.fixture
def gateways(outbound: HttpClient, origin: Origin, other: Origin) -> TrustlessGateways:
    return TrustlessGateways(
        outbound, [origin.url, other.url + "/"], seconds=0.5, hedge_seconds=0.1
    )


async def fetch(gateways: TrustlessGateways, cid: Cid = CID) -> bytes:
    """The block, asked for by a pin that has no experience with the gateways."""
    return await gateways.block(cid, PeerScore())


async def test_a_block_is_asked_for_in_the_raw_form(outbound: HttpClient, origin: Origin) -> None:
    origin.blocks[CID] = b"hello"
    assert await fetch(TrustlessGateways(outbound, [origin.url])) == b"hello"
    assert origin.requests == [f"/ipfs/{CID}?format=raw"]


@pytest.mark.parametrize(
    "mood",
    ["dark", "hang", "html", "huge", "garbage", "cut", "404", "429", "500", "503", "redirect"],
)
async def test_the_next_gateway_helps_out(
    gateways: TrustlessGateways, origin: Origin, other: Origin, mood: Mood
) -> None:
    origin.misbehave(mood)
    for number in range(4):  # whoever is first
        cid, block = raw(b"%d" % number)
        other.blocks |= block
        assert await fetch(gateways, cid) == block[cid]


async def test_a_slow_gateway_is_not_waited_for(
    outbound: HttpClient, origin: Origin, other: Origin
) -> None:
    """After a moment another one is asked beside it, and the first that gives the block wins."""
    gateways = TrustlessGateways(outbound, [origin.url, other.url], seconds=60, hedge_seconds=0.05)
    origin.misbehave("hang")
    for number in range(4):
        cid, block = raw(b"%d" % number)
        other.blocks |= block
        async with asyncio.timeout(30):
            assert await fetch(gateways, cid) == block[cid]
    assert origin.requests


async def test_blocks_are_spread_over_the_gateways(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    for number in range(10):
        cid, block = raw(b"%d" % number)
        origin.blocks |= block
        other.blocks |= block
        await fetch(gateways, cid)
    assert len(origin.requests) == len(other.requests) == 5


async def test_a_gateway_that_has_not_what_a_pin_needs_is_asked_last(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    score = PeerScore()
    for number in range(20):
        cid, block = raw(b"%d" % number)
        other.blocks |= block
        await gateways.block(cid, score)
    assert len(origin.requests) <= 2


async def test_wrong_bytes_are_refused_named_and_not_asked_for_again(
    outbound: HttpClient, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason names who served them; an hour later the gateway may have been mended."""
    now = 1000.0
    gateways = TrustlessGateways(outbound, [origin.url], clock=lambda: now)
    name = origin.url.removeprefix("http://")
    origin.blocks[CID] = b"hello"
    origin.corrupt.add(CID)
    for _ in range(3):
        with pytest.raises(PinFailed, match=f"{name}: It served wrong bytes"):
            await fetch(gateways)
    assert len(origin.requests) == 1
    said = capsys.readouterr()
    assert name in said.out + said.err
    other_cid, block = raw(b"another")
    origin.blocks |= block
    assert await fetch(gateways, other_cid) == b"another"  # for other blocks it is as good as any
    origin.corrupt.clear()
    now += WRONG_SECONDS + 1
    assert await fetch(gateways) == b"hello"


@pytest.mark.parametrize("wrong", [b"", b"hell", b"hello!", b"Hello"])
async def test_nothing_but_the_block_is_the_block(
    gateways: TrustlessGateways, origin: Origin, wrong: bytes
) -> None:
    origin.blocks[CID] = wrong
    with pytest.raises(PinFailed, match="wrong bytes"):
        await fetch(gateways)


async def test_a_block_that_nobody_has_is_a_failed_pin(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    """Both gateways are well and have nothing: the reason names the block and each gateway."""
    with pytest.raises(PinFailed) as failed:
        await fetch(gateways)
    assert str(CID) in failed.value.detail
    assert failed.value.detail.count("It answered 404.") == 2
    assert "http://" not in failed.value.detail
    assert len(origin.requests) == len(other.requests) == 1


async def test_one_gateway_that_answers_makes_it_a_failed_pin(
    gateways: TrustlessGateways, origin: Origin
) -> None:
    """One is down, the other answers, and its answer is 'no'."""
    origin.go_dark()
    with pytest.raises(PinFailed):
        await fetch(gateways)


@pytest.mark.parametrize("mood", ["hang", "429", "500", "503"])
async def test_gateways_that_are_slow_or_busy_put_the_pin_off(
    gateways: TrustlessGateways, origin: Origin, other: Origin, mood: Mood
) -> None:
    """PinDeferred: it says nothing of other contents, so the gateways are not called
    unreachable."""
    origin.misbehave(mood)
    other.misbehave(mood)
    with pytest.raises(PinDeferred):
        await fetch(gateways)


async def test_gateways_that_cannot_be_reached_are_an_outage(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    origin.go_dark()
    other.go_dark()
    with pytest.raises(UpstreamUnavailable):
        await fetch(gateways)


async def test_a_gateway_that_cannot_be_reached_is_left_alone(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    """After a few failures it is not asked for a while, so that nobody waits for it."""
    origin.go_dark()
    for number in range(40):
        cid, block = raw(b"%d" % number)
        other.blocks |= block
        await fetch(gateways, cid)
    # Twice at most: aiohttp tries a request once more where a kept connection was closed.
    assert len(origin.requests) <= 2 * 3


async def test_without_gateways_nobody_can_be_asked(outbound: HttpClient) -> None:
    with pytest.raises(UpstreamUnavailable):
        await fetch(TrustlessGateways(outbound, []))


async def test_the_largest_block_is_2_mib(gateways: TrustlessGateways, origin: Origin) -> None:
    largest, larger = bytes(MAX_BLOCK_BYTES), bytes(MAX_BLOCK_BYTES + 1)
    for content in (largest, larger):
        origin.blocks[raw(content)[0]] = content
    assert await fetch(gateways, raw(largest)[0]) == largest
    with pytest.raises(PinFailed, match="2097152"):
        await fetch(gateways, raw(larger)[0])


async def test_a_block_under_any_accepted_hash_is_verified(
    gateways: TrustlessGateways, origin: Origin
) -> None:
    """sha2-512 and keccak-256 are verified like sha2-256."""
    for code in (0x13, 0x1B):
        cid = Cid(RAW, code, digest_of(code, b"hello") or b"")
        origin.blocks[cid] = b"hello"
        assert await fetch(gateways, cid) == b"hello"
        origin.corrupt.add(cid)
        with pytest.raises(PinFailed):
            await fetch(gateways, cid)


async def test_a_fetch_that_is_cancelled_leaves_nothing_running(
    gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    origin.misbehave("hang")
    other.misbehave("hang")
    before = asyncio.all_tasks()
    fetching = asyncio.create_task(fetch(gateways))
    await until(lambda: origin.requests and other.requests)
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    mine = {task for task in asyncio.all_tasks() - before if "block" in repr(task.get_coro())}
    assert not mine
