"""Calls of a chain in which names have changed: not answered by a node that is behind, if another
one is not."""

from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import ask, quorum_of, rpc_of
from tests.fakes.ethereum import Ethereum


async def test_a_node_that_is_behind_is_passed_over(nodes: list[Ethereum], clock: Clock) -> None:
    """It is asked for its block and no more, and loses nothing by it: later it is the first."""
    first, second, _ = nodes
    second.block += 1
    async with HttpClient() as outbound:
        rpc = rpc_of(outbound, clock, first, second)
        rpc.required.require(second.block)
        for _ in range(10):
            await ask(rpc)
        assert (first.eth_calls, second.eth_calls) == (0, 10)
        assert len(second.requests) == 11
        assert not rpc.endpoints[0].breaker.is_open
        first.block += 1
        for _ in range(10):
            await ask(rpc)
        assert (first.eth_calls, second.eth_calls) == (10, 10)
        assert not rpc.required.was_behind(clock())


async def test_without_a_required_block_nobody_is_asked_for_it(
    nodes: list[Ethereum], clock: Clock
) -> None:
    """Half a minute after a change every node has it."""
    (first, *_) = nodes
    async with HttpClient() as outbound:
        rpc = rpc_of(outbound, clock, first)
        await ask(rpc)
        rpc.required.require(first.block + 5)
        clock.pass_(30)
        await ask(rpc)
    assert len(first.requests) == first.eth_calls == 2


async def test_where_all_are_behind_their_answer_counts_as_such(
    nodes: list[Ethereum], clock: Clock
) -> None:
    """Names are answered all the same, and the block of a liar costs a call a second."""
    first, second, _ = nodes
    async with HttpClient() as outbound:
        rpc = rpc_of(outbound, clock, first, second)
        rpc.required.require(2**63)
        begun = clock()
        for _ in range(50):
            await ask(rpc)
        assert rpc.required.was_behind(begun)
        assert (first.eth_calls, second.eth_calls) == (50, 0)
        assert (len(first.requests), len(second.requests)) == (51, 1)
        clock.pass_(1)
        assert not rpc.required.was_behind(clock())
        await ask(rpc)
        assert (len(first.requests), len(second.requests)) == (53, 2)


async def test_an_old_block_is_never_asked_for(nodes: list[Ethereum], clock: Clock) -> None:
    """Whoever says that names have changed long ago makes no answer older."""
    (first, *_) = nodes
    async with HttpClient() as outbound:
        rpc, quorum = rpc_of(outbound, clock, first), quorum_of(outbound, clock, *nodes)
        for chain in (rpc, quorum):
            chain.required.require(1)
            await ask(chain)
    assert first.blocks == ["latest", hex(first.block)]


async def test_a_node_that_is_down_does_not_hide_one_that_is_behind(
    nodes: list[Ethereum], clock: Clock
) -> None:
    """An answer from before the change is better than none."""
    first, second, _ = nodes
    second.go_dark()
    async with HttpClient() as outbound:
        for order in ((first, second), (second, first)):
            rpc = rpc_of(outbound, clock, *order)
            rpc.required.require(first.block + 1)
            await ask(rpc)
            assert rpc.required.was_behind(clock())


async def test_a_quorum_moves_to_the_block_of_the_change(
    nodes: list[Ethereum], clock: Clock
) -> None:
    """It does not wait for the four seconds for which its block is shared."""
    async with HttpClient() as outbound:
        quorum = quorum_of(outbound, clock, *nodes)
        await ask(quorum)
        for node in nodes:
            node.block += 1
        await ask(quorum)
        quorum.required.require(nodes[0].block)
        await ask(quorum)
        await ask(quorum)
    old, new = hex(nodes[0].block - 1), hex(nodes[0].block)
    assert nodes[0].blocks == [old, old, new, new]
    assert not quorum.required.was_behind(clock())


async def test_a_quorum_that_is_behind_says_so(nodes: list[Ethereum], clock: Clock) -> None:
    """Too few nodes have the block: the others' one is asked for, and again a second later."""
    nodes[0].block += 1
    async with HttpClient() as outbound:
        quorum = quorum_of(outbound, clock, *nodes)
        quorum.required.require(nodes[0].block)
        begun = clock()
        await ask(quorum)
        await ask(quorum)
        assert quorum.required.was_behind(begun)
        assert nodes[1].blocks == [hex(nodes[1].block)] * 2
        nodes[1].block += 1
        clock.pass_(1)
        await ask(quorum)
        assert not quorum.required.was_behind(clock())
    assert nodes[1].blocks[-1] == hex(nodes[1].block)
