"""A quorum among nodes that hang, and for callers that leave: nobody waits for nothing."""

import asyncio

import pytest

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import LONG, answered, ask, held, quorum_of, until_asked, work_of_ours
from tests.fakes.ethereum import REGISTRY, Ethereum
from tests.fakes.miniature import Mood
from tests.waiting import until


def numbers_asked(node: Ethereum) -> int:
    """How often *node* was asked for its newest block."""
    return node.posts - node.eth_calls


async def test_a_hanging_node_is_not_waited_for(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Once two of three agree, the third is not waited for."""
    quorum = quorum_of(outbound, clock, *nodes)
    async with held(nodes[1]):
        for _ in range(5):
            assert await ask(quorum) == bytes(32)
            clock.pass_(4)
        assert not work_of_ours()


async def test_a_node_that_never_says_its_block_is_asked_less(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Silence while the others answer is a failure: after three its breaker is open."""
    quorum = quorum_of(outbound, clock, *nodes)
    async with held(nodes[1]):
        for _ in range(3):
            await ask(quorum)
            clock.pass_(4)
        clock.pass_(-3)
        asked = nodes[1].posts
        await ask(quorum)
        assert nodes[1].posts == asked


async def test_when_too_few_are_well_the_refusal_costs_nothing(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The nodes that are well are not asked either: they are too few for a quorum."""
    quorum = quorum_of(outbound, clock, *nodes)
    nodes[0].go_dark()
    nodes[1].go_dark()
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable):
            await ask(quorum)
    posts = [node.posts for node in nodes]
    for _ in range(20):
        with pytest.raises(UpstreamUnavailable, match="well"):
            await ask(quorum)
    assert [node.posts for node in nodes] == posts


async def test_nobody_waits_behind_a_probe(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """While one caller finds out whether a node is back, the others are refused at once."""
    quorum = quorum_of(outbound, clock, *nodes[:2])
    nodes[0].go_dark()
    for _ in range(3):
        with pytest.raises(UpstreamUnavailable):
            await ask(quorum)
    nodes[0].come_back()
    clock.pass_(2)
    asked = numbers_asked(nodes[0])
    async with held(nodes[0]):
        probe = asyncio.create_task(ask(quorum))
        await until(lambda: numbers_asked(nodes[0]) != asked)
        for _ in range(5):
            with pytest.raises(UpstreamUnavailable, match="well"):
                await ask(quorum)
        assert not probe.done()
    assert await probe == bytes(32)


async def test_callers_at_once_share_one_question_for_the_block(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A hundred names cost one question for the newest block, and one more after four seconds."""
    quorum = quorum_of(outbound, clock, *nodes)
    await asyncio.gather(*(ask(quorum) for _ in range(100)))
    assert [numbers_asked(node) for node in nodes] == [1, 1, 1]
    clock.pass_(3.9)
    await ask(quorum)
    clock.pass_(0.1)
    await ask(quorum)
    assert [numbers_asked(node) for node in nodes] == [2, 2, 2]


async def test_callers_at_once_share_a_question_that_fails(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """They do not queue up to wait, each in turn, for nodes that hang."""
    for node in nodes:
        node.misbehave("hang")
    quorum = quorum_of(outbound, clock, *nodes, seconds=2)
    ends = await asyncio.gather(*(answered(ask(quorum)) for _ in range(50)))
    assert ends == ["failure"] * 50
    assert [node.posts for node in nodes] == [1, 1, 1]
    for node in nodes:
        node.come_back()
    assert await ask(quorum) == bytes(32)


async def test_a_caller_who_leaves_does_not_take_the_block_along(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The next one in the queue asks for the block itself, however the question before it ended."""
    quorum = quorum_of(outbound, clock, *nodes)
    for node in nodes:
        node.misbehave("error")
    with pytest.raises(UpstreamUnavailable):
        await ask(quorum)
    for node in nodes:
        node.come_back()
    async with held(nodes[0]), held(nodes[1]):
        first = asyncio.create_task(ask(quorum))
        await until(lambda: nodes[1].posts >= 2)
        second = asyncio.create_task(ask(quorum))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert await second == bytes(32)
    assert not work_of_ours()


async def test_nothing_is_left_running_when_the_caller_leaves(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """However many callers are cancelled, no request outlives them and no breaker stays open."""
    quorum = quorum_of(outbound, clock, *nodes)
    await ask(quorum)
    async with held(nodes[0]), held(nodes[1]), held(nodes[2]):
        for asked in range(2, 12):
            caller = asyncio.create_task(ask(quorum))
            await until_asked(nodes[0], asked)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert not work_of_ours()
    assert await ask(quorum) == bytes(32)


@pytest.mark.parametrize("mood", ["hang", "error"])
async def test_a_probe_without_a_verdict_makes_room_for_another(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """A probe that hangs or gets an error of the node lets the next call be the probe."""
    quorum = quorum_of(outbound, clock, *nodes)
    nodes[0].go_dark()
    for _ in range(3):
        clock.pass_(4)
        await ask(quorum)
    nodes[0].misbehave(mood)
    clock.pass_(2)
    async with held(nodes[1]), held(nodes[2]):
        probe = asyncio.create_task(ask(quorum))
        before = nodes[0].posts
        await until(lambda: nodes[0].posts > before)
        await asyncio.sleep(0.05)
    assert await probe == bytes(32)
    nodes[0].come_back()
    nodes[1].go_dark()
    assert await ask(quorum) == bytes(32)


async def test_nobody_waits_for_a_vote_that_changes_nothing(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Where all three must agree and two do not, the third is not waited for."""
    quorum = quorum_of(outbound, clock, *nodes, quorum=3)
    await ask(quorum)
    nodes[0].contracts[REGISTRY.lower()] = lambda _: b"\x01" * 32
    async with held(nodes[2]), asyncio.timeout(LONG / 2):
        with pytest.raises(InvalidUpstreamResponse, match="agree"):
            await ask(quorum)
    assert not work_of_ours()
