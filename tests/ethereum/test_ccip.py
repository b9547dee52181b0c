"""Calls that need more than the chain: the rounds, their bounds, and who is to blame."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.ccip import LOCAL_BATCH, MAX_BATCH, MAX_ROUNDS
from tests.ethereum.lookups import (
    CALL,
    CONTRACT,
    OTHER,
    World,
    lookup,
    query,
    returned,
    running_world,
)
from tests.fakes.ethereum import selector
from tests.fakes.miniature import Mood

REFUSAL = selector("Refused()")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


async def test_an_ordinary_call_is_passed_on(world: World) -> None:
    """A contract that answers is asked once, and no gateway at all."""
    assert await world.call(lambda _: b"answer", read=bytes.upper) == b"ANSWER"
    assert world.chain.calls == [CALL]


async def test_an_ordinary_revert_is_passed_on(world: World) -> None:
    """What a contract refuses, it refuses here as well."""

    def contract(_: bytes) -> bytes:
        raise Reverted(REFUSAL)

    with pytest.raises(Reverted) as reverted:
        await world.call(contract)
    assert reverted.value.data == REFUSAL


async def test_a_lookup_is_a_second_call(world: World) -> None:
    """The callback gets the gateway's response and the contract's own extra data."""
    world.gateway.answers[b"question"] = b"response"

    def contract(data: bytes) -> bytes:
        if data == CALL:
            raise lookup([world.gateway.by_get], b"question", extra=b"memory")
        return b"/".join(returned(data))

    assert await world.call(contract) == b"response/memory"
    assert len(world.chain.calls) == 2
    assert [asked.sender for asked in world.gateway.asked] == [CONTRACT.lower()]


async def test_a_refusing_callback_is_a_revert(world: World) -> None:
    """The revert of a callback that rejects the gateway's answer is the contract's own."""
    world.gateway.answers[b"question"] = b"forged"

    def contract(data: bytes) -> bytes:
        raise lookup([world.gateway.by_get], b"question") if data == CALL else Reverted(REFUSAL)

    with pytest.raises(Reverted) as reverted:
        await world.call(contract)
    assert reverted.value.data == REFUSAL


async def test_a_lookup_of_somebody_else_is_not_made(world: World) -> None:
    """The callback of a contract deeper in the call cannot be called (EIP-3668)."""

    def contract(_: bytes) -> bytes:
        raise lookup([world.gateway.by_get], b"question", sender=OTHER)

    with pytest.raises(InvalidUpstreamResponse):
        await world.call(contract)
    assert world.gateway.requests == []
    assert world.chain.calls == [CALL]


@pytest.mark.parametrize("lookups", range(1, MAX_ROUNDS + 2))
async def test_only_so_many_lookups_are_made(world: World, lookups: int) -> None:
    """Four in a row are made, and the fifth is not."""
    world.gateway.answers[b"question"] = b"response"
    left = lookups

    def contract(_: bytes) -> bytes:
        nonlocal left
        left -= 1
        if left >= 0:
            raise lookup([world.gateway.by_get], b"question")
        return b"answer"

    if lookups <= MAX_ROUNDS:
        assert await world.call(contract) == b"answer"
    else:
        with pytest.raises(InvalidUpstreamResponse):
            await world.call(contract)
    assert len(world.gateway.requests) == min(lookups, MAX_ROUNDS)


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("dark", UpstreamUnavailable),
        ("500", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("html", InvalidUpstreamResponse),
        ("404", InvalidUpstreamResponse),
    ],
)
async def test_a_failed_gateway_is_a_failed_call(
    world: World, mood: Mood, error: type[UpstreamError]
) -> None:
    """The callback is not called: there is nothing to call it with."""
    world.gateway.misbehave(mood)

    def contract(_: bytes) -> bytes:
        raise lookup([world.gateway.by_get], b"question")

    with pytest.raises(error):
        await world.call(contract, seconds=0.3 if mood == "hang" else 30)
    assert world.chain.calls == [CALL]


async def test_all_rounds_share_the_seconds(world: World) -> None:
    """A gateway that is slow in each of four rounds is not waited for four times."""
    world.gateway.answers[b"question"] = b"response"
    world.gateway.delay = 0.2

    def contract(_: bytes) -> bytes:
        raise lookup([world.gateway.by_get], b"question")

    with pytest.raises(UpstreamTimeout):
        await world.call(contract, seconds=0.5)
    assert len(world.gateway.requests) < MAX_ROUNDS


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0" * 31,
        b"\xff" * 320,
        lookup([], b"").data[4:-32],
        lookup(["x" * 5000], b"").data[4:],
        lookup([LOCAL_BATCH], b"").data[4:],
        lookup([LOCAL_BATCH], b"some other function").data[4:],
        lookup([LOCAL_BATCH], query()[:30]).data[4:],
        lookup([LOCAL_BATCH], query(*[((), b"")] * (MAX_BATCH + 1))).data[4:],
    ],
)
async def test_a_lookup_that_cannot_be_read_is_garbage(world: World, said: bytes) -> None:
    """No gateway is asked for a lookup that cannot be read."""

    def contract(_: bytes) -> bytes:
        raise Reverted(lookup([], b"").data[:4] + said)

    with pytest.raises(InvalidUpstreamResponse):
        await world.call(contract)
    assert world.chain.calls == [CALL]
