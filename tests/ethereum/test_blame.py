"""Whose fault a failure is: the node's, the contract's that was called, or ours."""

import asyncio

import pytest
import structlog

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamUnavailable
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import (
    LONG,
    ROOT_OWNER,
    ask,
    fails,
    held,
    quorum_of,
    rpc_of,
    until_asked,
    work_of_ours,
)
from tests.fakes.ethereum import REGISTRY, Ethereum
from tests.fakes.miniature import Mood


def unreadable(_: bytes) -> bytes:
    raise ValueError("this contract talks garbage")


async def test_a_contract_opens_no_breaker(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Calls of a broken contract, however many, do not close the nodes for other calls."""
    rpc = rpc_of(outbound, clock, *nodes)
    out_of_gas, huge, empty = "0x" + "01" * 20, "0x" + "02" * 20, "0x" + "03" * 20

    def fail_in_the_node(_: bytes) -> bytes:
        raise LookupError("out of gas")

    for node in nodes:
        node.contracts[out_of_gas] = fail_in_the_node
        node.contracts[huge] = lambda _: bytes(600_000)
    for _ in range(10):
        for contract in (out_of_gas, huge, empty):
            with pytest.raises(UpstreamError):
                await rpc.call(contract, b"", bytes)
        with pytest.raises(InvalidUpstreamResponse, match="talks garbage"):
            await rpc.call(REGISTRY, ROOT_OWNER, unreadable)
    before = nodes[0].eth_calls
    assert await ask(rpc) == bytes(32)
    assert nodes[0].eth_calls == before + 1


# A quarter of the seconds is how long a busy machine may take to say that a node is well.
@pytest.mark.parametrize(("quorum", "seconds"), [(1, 2.0), (2, 6.0)])
async def test_names_that_hang_at_the_nodes_close_them_for_nobody(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], quorum: int, seconds: float
) -> None:
    """Whoever asks for many of them at once, and nothing else, finds that they take too long; the
    nodes that answer whoever asks meanwhile are well."""
    endless = "0x" + "04" * 20
    for node in nodes:
        node.endless.add(endless)
    rpc: EthereumRpc | EthereumQuorum = rpc_of(outbound, clock, *nodes, seconds=seconds)
    if quorum > 1:
        rpc = quorum_of(outbound, clock, *nodes, quorum=quorum, seconds=seconds)
    for _ in range(2):
        hanging = [asyncio.create_task(rpc.call(endless, b"", bytes)) for _ in range(10)]
        await asyncio.gather(*hanging, return_exceptions=True)
        assert all(isinstance(task.exception(), UpstreamError) for task in hanging)
        for _ in range(5):
            assert await ask(rpc) == bytes(32)


async def test_a_hanging_name_does_not_keep_a_node_closed(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Where it was away for a while: whoever comes first afterwards asks it something harmless."""
    node, endless = nodes[0], "0x" + "04" * 20
    node.endless.add(endless)
    rpc = rpc_of(outbound, clock, node, seconds=3.0)
    node.go_dark()
    await fails(rpc, 3)
    node.come_back()
    clock.pass_(2.0)
    hanging = asyncio.create_task(rpc.call(endless, b"", bytes))
    await until_asked(node, 1)
    assert await ask(rpc) == bytes(32)
    with pytest.raises(UpstreamError):
        await hanging
    assert await ask(rpc) == bytes(32)


async def test_a_node_is_not_blamed_for_the_silence_of_the_next(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Its answer could not be read, which may be the contract's doing, and came in time."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    for asked in range(1, 4):
        async with held(second):
            caller = asyncio.create_task(rpc.call(REGISTRY, ROOT_OWNER, unreadable))
            await until_asked(second, asked)
            clock.pass_(LONG / 2)
        with pytest.raises(InvalidUpstreamResponse):
            await caller
        clock.pass_(-LONG / 2)
    assert await ask(rpc) == bytes(32)
    assert first.eth_calls == 4


async def test_a_probe_without_a_verdict_makes_room_for_another(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A probe whose answer cannot be read lets the next call be the probe."""
    node = nodes[0]
    rpc = rpc_of(outbound, clock, node)
    node.go_dark()
    await fails(rpc, 3)
    node.come_back()
    clock.pass_(2)
    with pytest.raises(InvalidUpstreamResponse, match="talks garbage"):
        await rpc.call(REGISTRY, ROOT_OWNER, unreadable)
    assert await ask(rpc) == bytes(32)


@pytest.mark.parametrize("mood", ["error", "empty", "html", "lie", "garbage"])
async def test_a_node_whose_answers_are_invalid_where_others_are_not_is_asked_no_more(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """An answer that is invalid where the next node's is valid counts as a failure."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    first.misbehave(mood)
    for _ in range(10):
        assert await rpc.call(REGISTRY, ROOT_OWNER, owner) == bytes(32)
    assert first.eth_calls == 3


def owner(returned: bytes) -> bytes:
    if len(returned) != 32:
        raise ValueError("this is no owner")
    return returned


async def test_a_revert_shows_that_a_node_is_well(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A revert is an answer, and no failure of the node."""
    rpc = rpc_of(outbound, clock, nodes[0])
    nodes[0].misbehave("revert")
    for _ in range(20):
        with pytest.raises(Reverted):
            await ask(rpc)
    assert nodes[0].eth_calls == 20


async def test_a_bug_of_ours_is_not_the_nodes_fault(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """An unexpected error reaches the caller; no other node is asked, and no breaker counts it."""

    def careless(_: bytes) -> bytes:
        raise ZeroDivisionError

    rpc = rpc_of(outbound, clock, *nodes)
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            await rpc.call(REGISTRY, ROOT_OWNER, careless)
    assert [node.eth_calls for node in nodes] == [10, 0, 0]
    assert not work_of_ours()


async def test_what_a_node_says_of_itself_is_for_the_log(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Which node it was and its own words are logged; the caller hears neither."""
    rpc = rpc_of(outbound, clock, nodes[0])
    nodes[0].misbehave("error")
    with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamUnavailable) as failed:
        await ask(rpc)
    (failure,) = [entry for entry in logs if entry["event"] == "rpc endpoint failed"]
    assert failure["endpoint"] == nodes[0].url.removeprefix("http://")
    assert "header not found" in failure["said"]
    assert "header not found" not in failed.value.detail
