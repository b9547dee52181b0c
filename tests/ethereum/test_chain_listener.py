"""Listeners to a chain: what they hear, what that costs a node, and nodes that fail or lie."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from content_gateway.ethereum.blocks import MOST_LOGS
from content_gateway.ethereum.chain_listener import BlockSource, ChainListener
from content_gateway.ethereum.endpoint import endpoints_of
from content_gateway.ethereum.polling import Polling
from content_gateway.ethereum.recent_blocks import MOST_BLOCKS
from content_gateway.ethereum.subscription import Subscription
from content_gateway.names.record_events import ENS_EVENTS, changed_node
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.fakes.chain import ChainNode, Topics, running_chain
from tests.fakes.ethereum import keccak256, namehash, selector
from tests.fakes.miniature import Mood
from tests.waiting import until

LONG = 30.0
OFTEN = 0.01
ALICE, BOB, CAROL = (namehash(f"{name}.eth") for name in ("alice", "bob", "carol"))
CONTENTHASH_CHANGED = keccak256(b"ContenthashChanged(bytes32,bytes)")
HEARD_BY = ["pushed", "pushed without logs", "polled"]


def changed(node: bytes) -> Topics:
    """The topics of an event by which a resolver says that *node* has changed."""
    return CONTENTHASH_CHANGED, node


@dataclass
class Ear:
    """A listener, and what it has told."""

    listener: ChainListener
    told: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def nodes(self) -> list[bytes]:
        """The nodes of which it told, in order."""
        return [node for _, node in self.told]

    async def has_blocks(self, number: int) -> None:
        """Wait until it has heard of so many."""
        await until(lambda: self.listener.events["blocks"] >= number)


def ear_of(*sources: BlockSource) -> Ear:
    """A listener that is not started yet."""
    told: list[tuple[int, bytes]] = []
    listener = ChainListener(
        "ens",
        sources,
        node_of=changed_node,
        heard=lambda block, nodes: told.extend((block, node) for node in nodes),
    )
    return Ear(listener, told)


@asynccontextmanager
async def listening(how: str, *nodes: ChainNode) -> AsyncIterator[Ear]:
    """A listener through *nodes* that has heard of their newest block."""
    async with AsyncExitStack() as stack:
        if how == "polled":
            outbound = await stack.enter_async_context(HttpClient())
            endpoints = endpoints_of(
                outbound, [node.url for node in nodes], seconds=LONG, clock=Clock()
            )
            sources: Sequence[BlockSource] = [Polling(endpoints, topics=ENS_EVENTS, interval=OFTEN)]
        else:
            for node in nodes:
                node.pushes_logs = how == "pushed"
            sources = [Subscription(node.ws_url, topics=ENS_EVENTS, seconds=LONG) for node in nodes]
        ear = ear_of(*sources)
        ear.listener.start()
        try:
            await until(lambda: ear.listener.is_up)
            yield ear
        finally:
            await ear.listener.close()


@pytest.fixture
async def node() -> AsyncIterator[ChainNode]:
    async with running_chain() as node:
        yield node


@pytest.mark.parametrize("how", HEARD_BY)
async def test_a_change_is_heard_with_its_block(node: ChainNode, how: str) -> None:
    """Of each event that concerns a name, the node and the block; of all others nothing."""
    async with listening(how, node) as ear:
        block = await node.mine(changed(ALICE), (selector("Transfer()").ljust(32),), ())
        await until(lambda: ear.told == [(block.number, ALICE)])
        await node.mine()
        later = await node.mine(changed(BOB))
        await until(lambda: len(ear.told) == 2)
    assert ear.told[1] == (later.number, BOB)


async def test_what_is_pushed_costs_no_call(node: ChainNode) -> None:
    """After the start, a node that pushes heads and logs is asked nothing."""
    async with listening("pushed", node) as ear:
        asked = list(node.methods)
        for number in range(20):
            await node.mine(changed(number.to_bytes(32, "big")))
        await until(lambda: len(ear.told) == 20)
    assert node.methods == asked
    assert asked == ["eth_subscribe", "eth_subscribe", "eth_getBlockByNumber", "eth_getLogs"]


@pytest.mark.parametrize("how", ["pushed without logs", "polled"])
async def test_each_block_costs_one_call_for_its_logs(node: ChainNode, how: str) -> None:
    """However many events it has, and however often it is polled; a block by its hash."""
    async with listening(how, node) as ear:
        before = node.methods.count("eth_getLogs")
        for number in range(1, 11):
            await node.mine(*(changed(bytes([number, log]) * 16) for log in range(100)))
            await until(lambda number=number: len(ear.told) == 100 * number)  # type: ignore[misc]
        polls = node.methods.count("eth_getBlockByNumber")
        if how == "polled":
            await until(lambda: node.methods.count("eth_getBlockByNumber") > polls + 3)
    assert node.methods.count("eth_getLogs") == before + 10
    assert all("blockHash" in one for one in node.filters[before:])


@pytest.mark.parametrize("how", HEARD_BY)
@pytest.mark.parametrize("depth", [1, 2, 5])
async def test_a_reorganisation_takes_changes_back(node: ChainNode, how: str, depth: int) -> None:
    """Names that changed in orphaned blocks are told again, also by a node that does not say so
    itself, and with them those of the new blocks; names of older blocks are not."""
    node.tells_of_removal = False
    async with listening(how, node) as ear:
        for number in range(1, 7):
            await node.mine(changed(bytes([number]) * 32))
            await until(lambda number=number: len(ear.told) == number)  # type: ignore[misc]
        orphaned = [topics[1] for block in node.chain[-depth:] for topics in block.logs]
        ear.told.clear()
        await node.reorganise(depth, *([()] * depth), [changed(CAROL)])
        await until(lambda: CAROL in ear.nodes)
        await until(lambda: set(ear.nodes) >= {CAROL, *orphaned})
    assert ear.listener.events["reorganisations"] == 1
    # Where blocks were missed meanwhile, it is not known how deep it went: more is told.
    if how != "polled":
        assert set(ear.nodes) == {CAROL, *orphaned}


async def test_what_a_node_takes_back_is_told_again(node: ChainNode) -> None:
    """Logs that were removed are heard as such, before there is another block."""
    async with listening("pushed", node) as ear:
        await node.mine(changed(ALICE))
        await until(lambda: ear.nodes == [ALICE])
        await node.reorganise(1)
        await until(lambda: ear.nodes == [ALICE, ALICE])


@pytest.mark.parametrize("how", HEARD_BY)
async def test_blocks_that_were_missed_cost_one_call(node: ChainNode, how: str) -> None:
    """After a broken connection the logs of all of them are had at once."""
    async with listening(how, node) as ear:
        await node.mine()
        await ear.has_blocks(2)
        node.go_dark()
        await node.hang_up()
        await until(lambda: not ear.listener.is_up)
        before = node.methods.count("eth_getLogs")
        for number in range(MOST_BLOCKS):
            await node.mine(changed(bytes([number]) * 32))
        node.come_back()
        await until(lambda: ear.listener.is_up)
        await until(lambda: len(ear.told) == MOST_BLOCKS)
    assert node.methods.count("eth_getLogs") == before + 1
    assert ear.listener.events["missed"] == 0


@pytest.mark.parametrize("how", HEARD_BY)
async def test_the_one_block_that_was_missed_is_asked_for(node: ChainNode, how: str) -> None:
    """It stands upon the last one, as one that is pushed does; but nobody has pushed its logs."""
    async with listening(how, node) as ear:
        node.go_dark()
        await node.hang_up()
        await until(lambda: not ear.listener.is_up)
        block = await node.mine(changed(ALICE))
        node.come_back()
        await until(lambda: ear.told == [(block.number, ALICE)])


@pytest.mark.parametrize("how", HEARD_BY)
async def test_a_longer_gap_leaves_the_clocks(node: ChainNode, how: str) -> None:
    """Nothing is told of blocks that are too many to ask for; what comes then is heard again."""
    async with listening(how, node) as ear:
        node.go_dark()
        await node.hang_up()
        await until(lambda: not ear.listener.is_up)
        for number in range(MOST_BLOCKS + 1):
            await node.mine(changed(bytes([number]) * 32))
        node.come_back()
        await until(lambda: ear.listener.is_up)
        assert ear.told == []
        assert ear.listener.events["missed"] == 1
        await node.mine(changed(ALICE))
        await until(lambda: ear.nodes == [ALICE])


@pytest.mark.parametrize("how", HEARD_BY)
async def test_a_node_that_refuses_so_many_blocks_is_heard_all_the_same(
    node: ChainNode, how: str
) -> None:
    """Nothing is told of blocks that it tells nobody of at once; what comes then is heard."""
    async with listening(how, node) as ear:
        node.most_blocks = 10
        node.go_dark()
        await node.hang_up()
        await until(lambda: not ear.listener.is_up)
        for number in range(11):
            await node.mine(changed(bytes([number]) * 32))
        node.come_back()
        await until(lambda: ear.listener.is_up)
        assert ear.told == []
        assert ear.listener.events["missed"] == 1
        await node.mine(changed(ALICE))
        await until(lambda: ear.nodes == [ALICE])


@pytest.mark.parametrize("how", HEARD_BY)
async def test_the_blocks_before_the_start_are_heard(node: ChainNode, how: str) -> None:
    """Answers that outlived a restart may be older than they: 64 are asked for, in one call."""
    await node.mine(changed(BOB))
    for _ in range(MOST_BLOCKS - 1):
        await node.mine()
    await node.mine(changed(ALICE))
    async with listening(how, node) as ear:
        assert ear.told == [(node.block, ALICE)]
    assert node.methods.count("eth_getLogs") == 1


GARBAGE = [
    "",
    "{",
    "[]",
    "null",
    "[" * 100_000,
    b"\xff\xfe",
    json.dumps({"method": "eth_subscription"}),
    json.dumps({"method": "eth_subscription", "params": {"subscription": ["0x1"]}}),
    json.dumps({"method": "eth_subscription", "params": {"subscription": "0x7", "result": {}}}),
    json.dumps({"method": "eth_subscription", "params": {"subscription": "0x1", "result": 7}}),
    json.dumps({"method": "eth_subscription", "params": {"subscription": "0x2", "result": {}}}),
    json.dumps({"id": 99, "result": "0x1"}),
    json.dumps({"method": "eth_other", "params": {}}),
    "x" * (5 * 1024 * 1024),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_ends_the_connection_and_nothing_else(
    node: ChainNode, garbage: str | bytes
) -> None:
    """What cannot be read says nothing of any name, and the listener connects again."""
    async with listening("pushed", node) as ear:
        await node.say(garbage)
        await until(lambda: ear.listener.events["failed"] == 1)
        await until(lambda: ear.listener.is_up)
        assert ear.told == []
        await node.mine(changed(ALICE))
        await until(lambda: ear.nodes == [ALICE])


@pytest.mark.parametrize(
    "spoilt",
    [
        {"number": "0x"},
        {"number": 7},
        {"number": "0x" + "f" * 17},
        {"hash": "0x12"},
        {"parentHash": None},
        {"hash": "0x" + "zz" * 32},
    ],
)
async def test_a_head_that_is_none_is_refused(node: ChainNode, spoilt: dict[str, object]) -> None:
    """Each field that is read is checked, pushed or polled."""
    async with listening("pushed", node) as ear:
        await node.push("newHeads", node.chain[-1].header() | spoilt)
        await until(lambda: ear.listener.events["failed"] == 1)
    async with listening("polled", node) as ear:
        node.head_answer = node.chain[-1].header() | spoilt
        await until(lambda: ear.listener.events["failed"] >= 1)
        assert not ear.listener.is_up
        node.head_answer = None
        await until(lambda: ear.listener.is_up)
        assert ear.told == []


@pytest.mark.parametrize(
    "answer", [7, [7], [{"topics": "0x"}], [{}], "0x", [[]], [{"topics": ["0x00"]}]]
)
async def test_logs_that_cannot_be_read_are_missed(node: ChainNode, answer: object) -> None:
    """The block is passed over, its names keep their clocks, and the next ones are heard."""
    async with listening("polled", node) as ear:
        node.logs_answer = answer
        await node.mine(changed(ALICE))
        await until(lambda: ear.listener.events["missed"] == 1)
        node.logs_answer = None
        await node.mine(changed(BOB))
        await until(lambda: ear.nodes == [BOB])
    assert ear.listener.events["failed"] == 0


async def test_a_flood_of_logs_ends_the_connection(node: ChainNode) -> None:
    """No node keeps this process busy with logs for which there is no block."""
    async with listening("pushed", node) as ear:
        block = node.chain[-1]
        for number in range(MOST_LOGS + 1):
            await node.push("logs", block.told(changed(number.to_bytes(32, "big"))))
        await until(lambda: ear.listener.events["failed"] == 1)
        assert len(ear.told) == MOST_LOGS


@pytest.mark.parametrize("mood", ["dark", "html", "500", "redirect", "garbage", "cut", "429"])
@pytest.mark.parametrize("how", ["pushed", "polled"])
async def test_a_dead_node_is_left_for_the_next(mood: Mood, how: str) -> None:
    """A chain is heard through whichever node works, and says so while none does."""
    async with (
        running_chain() as first,
        running_chain() as second,
        listening(how, first, second) as ear,
    ):
        second.misbehave(mood)
        first.misbehave(mood)
        await first.hang_up()
        await until(lambda: not ear.listener.is_up)
        second.come_back()
        await until(lambda: ear.listener.is_up)
        await second.mine(changed(ALICE))
        await until(lambda: ALICE in ear.nodes)


async def test_a_node_that_says_nothing_is_asked(node: ChainNode) -> None:
    """It may have forgotten whom it was to tell: the newest block is asked for after a while, and
    what changed in it."""
    ear = ear_of(Subscription(node.ws_url, topics=ENS_EVENTS, seconds=LONG, silence=0.05))
    ear.listener.start()
    try:
        await until(lambda: ear.listener.is_up)
        node.is_silent = True
        await node.mine(changed(ALICE))
        await ear.has_blocks(2)
        assert ear.nodes == [ALICE]
    finally:
        await ear.listener.close()
    assert ear.listener.events["failed"] == 0


async def test_a_node_that_tells_and_does_not_answer_is_left(node: ChainNode) -> None:
    """A question has its seconds, however often the node tells of new blocks meanwhile."""
    ear = ear_of(Subscription(node.ws_url, topics=ENS_EVENTS, seconds=0.3))
    ear.listener.start()
    try:
        await until(lambda: ear.listener.is_up)
        node.is_unanswering = node.is_silent = True
        await node.mine()  # it is missed, so that the next one makes the listener ask
        node.is_silent = False
        for _ in range(20):
            await node.mine()
            await asyncio.sleep(0.05)
        assert ear.listener.events["failed"] >= 1
    finally:
        await ear.listener.close()


async def test_a_node_that_is_behind_says_nothing_new(node: ChainNode) -> None:
    """A block that is known is no reorganisation, however often it is told of."""
    async with listening("pushed", node) as ear:
        await node.mine(changed(ALICE))
        await node.mine(changed(BOB))
        await ear.has_blocks(3)
        await until(lambda: len(ear.told) == 2)
        for block in node.chain:
            await node.push("newHeads", block.header())
        await node.mine(changed(CAROL))
        await until(lambda: CAROL in ear.nodes)
    assert ear.nodes == [ALICE, BOB, CAROL]
    assert ear.listener.events["reorganisations"] == 0


async def test_a_chain_without_an_end_of_lies_is_heard_as_gaps(node: ChainNode) -> None:
    """Heads at any height, none upon another: nothing is told but what is known to be orphaned."""
    async with listening("pushed", node) as ear:
        await node.mine(changed(ALICE))
        await until(lambda: ear.nodes == [ALICE])
        for number in range(200):
            fake = node.chain[-1].header() | {
                "number": hex((number * 7_919_317) % 2**63),
                "hash": "0x" + number.to_bytes(32, "big").hex(),
                "parentHash": "0x" + "77" * 32,
            }
            await node.push("newHeads", fake)
        await ear.has_blocks(202)
        await node.mine(changed(BOB))
        await until(lambda: BOB in ear.nodes)
    assert set(ear.nodes) == {ALICE, BOB}
