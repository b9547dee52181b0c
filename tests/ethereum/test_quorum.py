"""A quorum: what enough nodes agree on is the answer, and nothing else is."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
import structlog

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamUnavailable
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import LONG, ROOT_OWNER, ask, held, quorum_of, until_asked
from tests.fakes.ethereum import REGISTRY, Ethereum, Revert
from tests.fakes.miniature import Mood

LIE = b"\x01" * 32
OTHER_LIE = b"\x02" * 32
Says = Callable[[Ethereum], None]


def lie(node: Ethereum, words: bytes = LIE) -> None:
    """From now on *node* says of every registered name that it belongs to somebody else."""
    node.contracts[REGISTRY.lower()] = lambda _: words


def revert(node: Ethereum, words: bytes = b"no") -> None:
    """From now on *node* says that the registry refuses."""

    def refuse(_: bytes) -> bytes:
        raise Revert(words)

    node.contracts[REGISTRY.lower()] = refuse


async def test_nodes_that_agree_are_believed(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """All of them are asked once, at once, and the answer is what they say."""
    assert await ask(quorum_of(outbound, clock, *nodes, quorum=3)) == bytes(32)
    assert [node.eth_calls for node in nodes] == [1, 1, 1]


async def test_every_node_is_asked_for_the_same_block(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The second parameter of eth_call is the number that enough of them have."""
    nodes[0].block, nodes[1].block, nodes[2].block = 1_000_002, 1_000_001, 1_000_001
    quorum = quorum_of(outbound, clock, *nodes)
    await ask(quorum)
    asked = {block for node in nodes for block in node.blocks}
    assert asked == {hex(1_000_001)}


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_a_liar_is_outvoted(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], liar: int
) -> None:
    """Whichever of the three it is, and also where it answers first."""
    lie(nodes[liar])
    honest = [node for number, node in enumerate(nodes) if number != liar]
    quorum = quorum_of(outbound, clock, *nodes)
    await ask(quorum)
    async with held(honest[0]), held(honest[1]):
        caller = asyncio.create_task(ask(quorum))
        await until_asked(nodes[liar], 2)
    assert await caller == bytes(32)


async def test_an_outvoted_liar_is_named_in_the_log(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """The operator hears that one of the nodes says something else."""
    lie(nodes[0])
    quorum = quorum_of(outbound, clock, *nodes, quorum=2)
    await ask(quorum)
    with structlog.testing.capture_logs() as logs:
        async with held(nodes[1]):
            caller = asyncio.create_task(ask(quorum))
            await until_asked(nodes[2], 2)
            await asyncio.sleep(0.1)
        assert await caller == bytes(32)
    (entry,) = [entry for entry in logs if entry["event"] == "rpc endpoints outvoted"]
    assert [host(nodes[0])] in entry["said"].values()
    assert "s3cr3t" not in str(logs)


def host(node: Ethereum) -> str:
    """How the log names *node*."""
    return node.url.removeprefix("http://")


@pytest.mark.parametrize("quorum", [2, 3])
async def test_nodes_that_all_say_something_else_are_not_believed(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], quorum: int
) -> None:
    """Two liars of different minds: 502, and the log names who said what, by host alone."""
    lie(nodes[0])
    lie(nodes[2], OTHER_LIE)
    with (
        structlog.testing.capture_logs() as logs,
        pytest.raises(InvalidUpstreamResponse) as refused,
    ):
        await ask(quorum_of(outbound, clock, *nodes, quorum=quorum))
    (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
    said = sorted(names for names in entry["said"].values())
    assert set(map(tuple, said)) <= {(host(node),) for node in nodes}
    assert len(said) >= 2
    assert "s3cr3t" not in str(logs) + refused.value.detail
    assert "127.0.0.1" not in refused.value.detail


async def test_one_liar_is_enough_when_all_must_agree(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Where the operator wants all three, two do not make an answer."""
    lie(nodes[1])
    with pytest.raises(InvalidUpstreamResponse, match="agree"):
        await ask(quorum_of(outbound, clock, *nodes, quorum=3))


@pytest.mark.parametrize("mood", ["dark", "500", "error", "html", "empty"])
async def test_one_of_three_may_be_down(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """The other two are enough, before and after the breaker has opened."""
    nodes[0].misbehave(mood)
    quorum = quorum_of(outbound, clock, *nodes)
    for _ in range(10):
        assert await ask(quorum) == bytes(32)
        clock.pass_(1)


@pytest.mark.parametrize("mood", ["dark", "500", "error", "html"])
async def test_with_two_of_three_down_nothing_is_known(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], mood: Mood
) -> None:
    """One answer is no quorum: UpstreamUnavailable, not a disagreement."""
    nodes[0].misbehave(mood)
    nodes[2].misbehave(mood)
    quorum = quorum_of(outbound, clock, *nodes)
    for _ in range(8):
        with pytest.raises(UpstreamUnavailable, match="Too few"):
            await ask(quorum)
    nodes[2].come_back()
    clock.pass_(2)
    assert await ask(quorum) == bytes(32)


async def test_nodes_that_go_down_between_block_and_call_are_too_few(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """One answer of three is an outage, not a disagreement and not an answer."""
    quorum = quorum_of(outbound, clock, *nodes)
    await ask(quorum)
    nodes[0].go_dark()
    nodes[1].go_dark()
    with pytest.raises(UpstreamUnavailable, match="Too few"):
        await ask(quorum)


async def test_a_revert_that_they_agree_on_is_an_answer(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """A revert needs a quorum, as a result does."""
    for node in nodes[:2]:
        revert(node)
    with pytest.raises(Reverted) as reverted:
        await ask(quorum_of(outbound, clock, *nodes))
    assert reverted.value.data == b"no"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (partial(lie, words=bytes(33)), partial(lie, words=bytes(32))),
        (partial(lie, words=b"same"), partial(revert, words=b"same")),
        (revert, partial(revert, words=b"")),
        (revert, partial(revert, words=b"yes")),
    ],
    ids=["a byte more", "a result and a revert", "a revert without data", "another revert"],
)
async def test_answers_agree_only_byte_for_byte(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], one: Says, other: Says
) -> None:
    """Results and the data of reverts are compared whole, before they are read; a single one that
    is different is outvoted."""
    one(nodes[0])
    assert await ask(quorum_of(outbound, clock, *nodes)) == bytes(32)
    other(nodes[1])
    with pytest.raises(InvalidUpstreamResponse, match="agree"):
        await ask(quorum_of(outbound, clock, *nodes[:2]))


async def test_what_they_agree_on_and_nobody_can_read_is_garbage(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """All nodes say the same, so it is the contract's doing: no breaker counts it."""

    def read(_: bytes) -> bytes:
        raise ValueError("no owner")

    quorum = quorum_of(outbound, clock, *nodes)
    for _ in range(5):
        with pytest.raises(InvalidUpstreamResponse, match="cannot be read"):
            await quorum.call(REGISTRY, ROOT_OWNER, read)
    assert await ask(quorum) == bytes(32)


async def test_a_contract_opens_no_breaker(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Calls that no node can answer count for no breaker."""
    quorum = quorum_of(outbound, clock, *nodes)
    for _ in range(5):
        with pytest.raises(UpstreamError):
            await quorum.call("0x" + "0c" * 20, b"", bytes)
    assert await ask(quorum) == bytes(32)
    assert len(nodes[0].blocks) == 6


async def test_the_same_endpoint_twice_is_one_voice(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """One endpoint that is listed twice has one vote."""
    url = nodes[0].url
    quorum = EthereumQuorum(outbound, [url, url], seconds=LONG, quorum=2, clock=clock)
    with pytest.raises(UpstreamUnavailable):
        await ask(quorum)


async def test_a_node_that_tells_no_number_has_no_say_in_the_block(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Its claim is left out; two others are enough."""
    nodes[0].misbehave("lie")
    assert await ask(quorum_of(outbound, clock, *nodes)) == bytes(32)
    assert nodes[1].blocks == [hex(nodes[1].block)]
