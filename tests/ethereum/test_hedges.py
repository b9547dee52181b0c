"""Hedges: a slow node is not waited for alone, and the load stays what it was."""

import asyncio

import pytest

from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import LONG, answered, ask, held, rpc_of, until_asked, work_of_ours
from tests.fakes.ethereum import Ethereum


async def warm(rpc: EthereumRpc) -> None:
    """One call, so that the first node has a latency: none, by the clock of these tests."""
    assert await ask(rpc) == bytes(32)


async def test_a_slow_node_gets_one_hedge(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The second node is asked as well, and its answer serves; the third is not asked."""
    first, second, third = nodes
    rpc = rpc_of(outbound, clock, *nodes)
    await warm(rpc)
    async with held(first):
        assert await ask(rpc) == bytes(32)
    assert (first.eth_calls, second.eth_calls, third.eth_calls) == (2, 1, 0)


async def test_a_slow_hedge_gets_none(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """One hedge a call: two slow nodes are waited for, and the first to answer wins."""
    first, second, third = nodes
    rpc = rpc_of(outbound, clock, *nodes)
    for node in nodes:
        await warm(rpc)
        node.go_dark()
        clock.pass_(20)  # so that the failures are forgotten
    for node in nodes:
        node.come_back()
        node.calls.clear()
    async with held(second):
        async with held(first):
            caller = asyncio.create_task(ask(rpc))
            await until_asked(second, 1)
            await asyncio.sleep(0.3)  # several times as long as the hedge had to wait
        assert await caller == bytes(32)
    assert (first.eth_calls, second.eth_calls, third.eth_calls) == (1, 1, 0)


async def test_the_first_node_may_still_win(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The node that was asked first may answer beside its hedge, and neither is blamed."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    await warm(rpc)
    async with held(second):
        for asked in range(1, 4):
            async with held(first):
                caller = asyncio.create_task(ask(rpc))
                await until_asked(second, asked)
            assert await caller == bytes(32)
    assert not work_of_ours()
    first.go_dark()
    assert await ask(rpc) == bytes(32), "the hedge was taken for dead"


async def test_when_the_hedge_fails_the_next_is_asked(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A silent node is not waited for because its hedge is dead."""
    first, second, third = nodes
    rpc = rpc_of(outbound, clock, *nodes)
    await warm(rpc)
    second.go_dark()
    async with held(first), asyncio.timeout(LONG / 2):
        assert await ask(rpc) == bytes(32)
    assert third.eth_calls == 1


async def test_of_ten_calls_one_may_have_a_hedge(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Five hedges are saved up; then slow nodes add a tenth to the load, however many ask."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    await warm(rpc)
    expected = 5
    async with held(second):
        for calls in (30, 10, 20):
            if calls < 30:
                expected += calls // 10
            async with held(first):
                asked = first.eth_calls
                callers = [asyncio.create_task(ask(rpc)) for _ in range(calls)]
                await until_asked(first, asked + calls)
                await until_asked(second, expected)
                await asyncio.sleep(0.3)  # the time until a hedge has passed for all of them
            assert await asyncio.gather(*callers) == [bytes(32)] * calls
    assert second.eth_calls == expected == 8


@pytest.mark.parametrize("reverts", [False, True])
async def test_a_node_that_is_overtaken_three_times_is_asked_no_more(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], reverts: bool
) -> None:
    """To lose the race against its hedge is a failure, whatever the hedge says."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    clock.pass_(-20)  # so that the good answer is forgotten
    await warm(rpc)
    clock.pass_(20)
    if reverts:
        second.misbehave("revert")
    async with held(first):
        for _ in range(5):
            assert await answered(ask(rpc)) == ("revert" if reverts else "result")
    assert first.eth_calls == 1 + 3
    assert second.eth_calls == 5


async def test_nothing_is_left_running_when_the_caller_leaves(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Both questions end before the caller's own task does."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    await warm(rpc)
    async with held(first), held(second):
        caller = asyncio.create_task(ask(rpc))
        await until_asked(second, 1)
        assert len(work_of_ours()) == 2
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not work_of_ours()


async def test_nothing_is_left_running_when_somebody_wins(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The loser's question has ended when the answer is given."""
    first, second, _ = nodes
    rpc = rpc_of(outbound, clock, first, second)
    await warm(rpc)
    async with held(first):
        await ask(rpc)
        assert not work_of_ours()
