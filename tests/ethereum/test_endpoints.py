"""Several nodes of one chain: their order and their breakers."""

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.ethereum.endpoint import read_block_number
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import (
    LONG,
    ROOT_OWNER,
    answered,
    ask,
    fails,
    held,
    rpc_of,
    until_asked,
)
from tests.fakes.ethereum import REGISTRY, Ethereum, Revert, running_ethereum
from tests.fakes.miniature import Mood
from tests.waiting import until


@pytest.mark.parametrize("mood", ["dark", "500", "429"])
async def test_a_node_that_fails_is_asked_no_more(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """After three failures its breaker is open, and only the others are asked."""
    first, second, third = nodes
    rpc = rpc_of(outbound, clock, *nodes)
    first.misbehave(mood)
    for _ in range(10):
        assert await ask(rpc) == bytes(32)
    assert first.eth_calls == 3
    assert second.eth_calls == 10
    assert third.eth_calls == 0


async def test_a_stopped_node_is_passed_over(outbound: HttpClient, clock: Clock) -> None:
    """A refused connection is a failure like any other."""
    async with running_ethereum() as first, running_ethereum() as second:
        rpc = rpc_of(outbound, clock, first, second)
        await ask(rpc)
        async with running_ethereum() as stopped:
            alone = rpc_of(outbound, clock, stopped)
            rpc = rpc_of(outbound, clock, stopped, second)
            await ask(alone)
        with pytest.raises(UpstreamUnavailable):
            await ask(alone)
        assert await ask(rpc) == bytes(32)
        assert second.eth_calls == 1


@pytest.mark.parametrize("mood", ["dark", "429", "503", "limited"])
async def test_when_no_node_is_well_the_refusal_costs_nothing(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """With every breaker open no node is asked: UpstreamUnavailable, not absence."""
    rpc = rpc_of(outbound, clock, *nodes)
    for node in nodes:
        node.misbehave(mood)
    await fails(rpc, 3)
    asked = [node.eth_calls for node in nodes]
    assert asked == [3, 3, 3]
    for _ in range(50):
        with pytest.raises(UpstreamUnavailable, match=r"failed to answer|took too long"):
            await ask(rpc)
    assert [node.eth_calls for node in nodes] == asked


async def test_two_seconds_later_one_caller_finds_out(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """While the breaker is half open one call is the probe, and the others are refused."""
    node = nodes[0]
    rpc = rpc_of(outbound, clock, node)
    node.go_dark()
    await fails(rpc, 3)
    node.come_back()
    clock.pass_(2)
    async with held(node):
        probe = asyncio.create_task(ask(rpc))
        await until(lambda: node.posts == 4)
        await fails(rpc, 20)
        assert (node.posts, node.eth_calls) == (4, 3)  # something harmless was asked
    assert await probe == bytes(32)
    await asyncio.gather(*(ask(rpc) for _ in range(20)))
    assert node.eth_calls == 24


async def test_a_node_that_is_back_takes_its_place_again(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The operator's order holds: after the probe the first node is asked first."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    first.go_dark()
    for _ in range(5):
        await ask(rpc)
    first.come_back()
    clock.pass_(2)
    before = first.eth_calls
    for _ in range(5):
        await ask(rpc)
    assert first.eth_calls == before + 5


async def test_a_hanging_nodes_breaker_opens(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A timeout is a failure too: after three of them the breaker is open."""
    node = nodes[0]
    rpc = rpc_of(outbound, clock, node, seconds=0.2)
    node.misbehave("hang")
    await fails(rpc, 3)
    with pytest.raises(UpstreamUnavailable, match=r"failed to answer|took too long"):
        await ask(rpc)
    assert node.eth_calls == 3


async def test_a_caller_who_has_waited_for_long_has_found_out(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A deadline shorter than the node's own time does not hide that it hangs."""
    node = nodes[0]
    rpc = rpc_of(outbound, clock, node)
    async with held(node):
        for asked in range(1, 4):
            caller = asyncio.create_task(ask(rpc))
            await until_asked(node, asked)
            clock.pass_(LONG / 4)
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
            clock.pass_(-LONG / 4)
        with pytest.raises(UpstreamUnavailable, match=r"failed to answer|took too long"):
            await ask(rpc)


async def test_callers_who_leave_at_once_prove_nothing(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Calls that are cancelled at once are no failures, nor is a cancelled probe."""
    node = nodes[0]
    rpc = rpc_of(outbound, clock, node)
    for was_dead in (False, True):
        if was_dead:
            node.go_dark()
            await fails(rpc, 3)
            node.come_back()
            clock.pass_(2)
        async with held(node):
            for _ in range(10 if was_dead else 100):
                caller = asyncio.create_task(ask(rpc))
                await asyncio.sleep(0)
                caller.cancel()
                await asyncio.gather(caller, return_exceptions=True)
        assert await ask(rpc) == bytes(32)


async def test_the_contract_of_a_caller_decides_nothing_for_another(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Results, reverts and failures at the same time: each caller gets its own."""
    rpc = rpc_of(outbound, clock, *nodes)
    reverting, broken = "0x" + "0a" * 20, "0x" + "0b" * 20

    def revert(_: bytes) -> bytes:
        raise Revert(b"\x01\x02\x03\x04")

    for node in nodes:
        node.contracts[reverting] = revert
    calls = [
        call
        for _ in range(30)
        for call in (
            rpc.call(REGISTRY, ROOT_OWNER, bytes),
            rpc.call(reverting, b"", bytes),
            rpc.call(broken, b"", bytes),
        )
    ]
    ends = await asyncio.gather(*(answered(call) for call in calls))
    assert ends == ["result", "revert", "failure"] * 30


@pytest.mark.parametrize(
    "result",
    ["0x", "0xg", "1", "0x-1", "0x_1", "0x1_0", "0x 1", "0x" + "f" * 17, 17, None, ["0x1"], "0x١"],
)
def test_what_is_no_block_number_is_garbage(result: object) -> None:
    """A number is 0x and at most 16 hex digits, nothing that Python would also read as one."""
    with pytest.raises(InvalidUpstreamResponse):
        read_block_number(json.dumps({"result": result}).encode())


def test_a_block_number_is_read() -> None:
    """Leading zeros are no quantity of the specification, and do no harm."""
    assert read_block_number(b'{"result": "0x13aB"}') == 0x13AB
    assert read_block_number(b'{"result": "0x0"}') == 0


@pytest.mark.parametrize("chain", [EthereumRpc, partial(EthereumQuorum, quorum=2)])
async def test_endpoints_of_one_host_are_told_apart(
    outbound: HttpClient, chain: Callable[..., EthereumRpc | EthereumQuorum]
) -> None:
    """By their place among the URLs, as logs and metrics show it; never by what may be secret."""
    urls = [
        "https://user:s3cr3t@one.example/v3/s3cr3t",
        "https://two.example",
        "https://one.example/v3/other-s3cr3t?key=s3cr3t",
        "https://one.example:8545/s3cr3t",
    ]
    names = [one.name for one in chain(outbound, urls, seconds=LONG).endpoints]
    assert names == ["one.example#1", "two.example", "one.example#3", "one.example:8545"]
