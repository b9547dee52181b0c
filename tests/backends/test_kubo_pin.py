"""Kubo as a pin backend, before a miniature node: how pins succeed, fail and are broken off."""

import asyncio

import pytest

from content_gateway.backends.kubo.kubo import MAX_LINE_BYTES, Kubo
from content_gateway.errors import (
    PinDeferred,
    UpstreamUnavailable,
)
from content_gateway.model.cid import DAG_PB, Cid
from content_gateway.model.content_state import BackendStatus, Peer, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import ABSENT, PEER, origin, pin, refused, silent, status_of
from tests.fakes.kubo import NAME, Trouble, running_kubo
from tests.fakes.kubo import Kubo as Node
from tests.ipld.dags import Dag, block, chain, pb, raw
from tests.waiting import until


def findable(node: Node, dag: Dag) -> Cid:
    """The root of *dag*, all of whose blocks somebody in the node's network has."""
    cid, blocks = dag
    node.findable |= blocks
    return cid


async def test_a_pin_returns_when_all_of_it_is_there(kubo: Kubo, node: Node) -> None:
    """Every block of the DAG is kept by the node, and the node says so itself."""
    dag = pb(raw(b"a"), pb(raw(b"b"), raw(b"c")))
    cid = findable(node, dag)
    assert await pin(kubo, cid) == BackendStatus(
        TrackerStatus.PINNED, 1, 1, (Peer(NAME, "pinned"),)
    )
    assert node.kept() == set(dag[1])
    assert await status_of(kubo, cid) == await pin(kubo, cid)


async def test_progress_is_told_as_it_comes(kubo: Kubo, node: Node) -> None:
    """Blocks and bytes so far, after each line; a line without numbers is zero of both."""
    dag = chain(4)
    sizes = [len(data) for data in dag[1].values()]
    node.patient.add(dag[0])
    lines: list[tuple[int, int]] = []

    def progress(blocks: int, size: int) -> None:
        lines.append((blocks, size))
        findable(node, dag)  # it is found while Kubo waits

    await kubo.pin(dag[0], ABSENT, progress)
    assert lines[0] == (0, 0)
    assert [blocks for blocks, _ in lines if blocks] == [1, 2, 3, 4]
    assert lines[-1] == (4, sum(sizes))


@pytest.mark.parametrize(
    "seen", [TrackerStatus.ABSENT, TrackerStatus.FAILED, TrackerStatus.UNKNOWN]
)
async def test_what_is_pinned_is_never_added_again(
    kubo: Kubo, node: Node, seen: TrackerStatus
) -> None:
    """Kubo would drop the pin first; and the caller's status check may be old."""
    cid = findable(node, raw(b"here"))
    node.pin(cid)
    assert (await pin(kubo, cid, BackendStatus(seen))).status is TrackerStatus.PINNED
    assert node.asked("pin/add") == 0


async def test_the_miniature_has_the_trap() -> None:
    """Without a status check, a pin whose content is gone is lost: the test above means
    something."""
    async with running_kubo() as node, HttpClient() as outbound:
        cid = raw(b"gone")[0]
        node.pin(cid)
        await outbound.ask(
            "POST",
            f"{node.url}/api/v0/pin/add?arg={cid}&recursive=true&progress=true",
            seconds=5,
            max_bytes=1000,
        )
        assert not node.pins


async def test_nothing_is_sent_when_the_status_check_fails(kubo: Kubo, node: Node) -> None:
    """A node that cannot say what it holds is not asked to pin."""
    node.refuses["pin/ls"] = (500, b'{"Message":"pinner closed","Code":0,"Type":"error"}')
    with pytest.raises(UpstreamUnavailable):
        await pin(kubo, findable(node, raw(b"here")))
    assert node.asked("pin/add") == 0


async def test_missing_content_has_failed_and_not_the_node(kubo: Kubo, node: Node) -> None:
    """At once or after some blocks, in words that a person understands. The next attempt goes on
    from the blocks that this one has left."""
    assert "is offline and does not have all of it" in await refused(kubo, raw(b"nobody's")[0])
    cid, blocks = chain(3)
    node.findable = dict(list(blocks.items())[:-1])  # the end of the chain is missing
    assert await refused(kubo, cid) == "Kubo gave up after 2 blocks (96 bytes) and gave no reason."
    assert node.pins == {}
    node.findable = dict(list(blocks.items())[-1:])
    await pin(kubo, cid)
    assert node.kept() == set(blocks)


async def test_a_block_that_is_not_what_its_cid_says_is_a_failure(kubo: Kubo, node: Node) -> None:
    """A person hears that the content is wrong, not how a decoder feels."""
    data = b"no protobuf"
    cid = block(DAG_PB, data)
    node.findable[cid] = data
    assert "is not the dag-pb node that its CID says" in await refused(kubo, cid)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("dies", "Kubo broke off after "),
        ("error line", "it was not found in time"),
        ("trailer", "and gave no reason"),
        ("garbage", "did not answer in JSON"),
        ("long line", f"more than {MAX_LINE_BYTES} bytes"),
        ("somebody else's", "Kubo has pinned something else"),
    ],
)
async def test_without_kubos_yes_nothing_is_pinned(
    kubo: Kubo, node: Node, trouble: Trouble, reason: str
) -> None:
    """However a stream ends, the pin has failed if the node then says that it has none."""
    cid = findable(node, chain(3))
    node.trouble, node.last_words = trouble, "context deadline exceeded"
    assert reason in await refused(kubo, cid)
    assert (await pin(kubo, cid)).status is TrackerStatus.PINNED


async def test_a_yes_that_was_lost_on_the_way_is_found_out(kubo: Kubo, node: Node) -> None:
    """The connection ends before the last line, and the pin is there: it is not asked for again."""
    cid = findable(node, chain(3))
    node.trouble = "unsaid"
    assert (await pin(kubo, cid)).status is TrackerStatus.PINNED
    assert node.asked("pin/add") == 1


async def test_a_node_that_falls_silent_has_failed(outbound: HttpClient, node: Node) -> None:
    """Lines come twice a second from a Kubo that is alive."""
    cid = findable(node, chain(3))
    node.trouble = "silent"
    assert "fell silent after " in await refused(Kubo(outbound, node.url, seconds=0.3), cid)


async def test_a_retrieval_has_an_end(outbound: HttpClient, node: Node) -> None:
    """Content that nobody has is given up after `pin_seconds`, though Kubo would wait for ever."""
    cid = raw(b"nobody's")[0]
    node.patient.add(cid)
    kubo = Kubo(outbound, node.url, seconds=10, pin_seconds=0.3)
    assert await refused(kubo, cid) == "It was not found in time: 0 blocks (0 bytes) came in 0.3 s."


async def test_a_node_that_goes_away_in_the_middle_is_an_outage(kubo: Kubo, node: Node) -> None:
    """The content is not to blame when the node cannot be reached afterwards either."""
    cid = findable(node, chain(3))
    node.trouble = "dies"
    with pytest.raises(UpstreamUnavailable):
        await kubo.pin(cid, ABSENT, lambda blocks, size: node.go_dark())
    node.trouble = "dies"
    node.go_dark()
    with pytest.raises(UpstreamUnavailable):
        await pin(kubo, cid)


async def test_a_full_disk_is_not_the_contents_fault(kubo: Kubo, node: Node) -> None:
    """The pin is put off with the reason; where the disk is stays unsaid."""
    body = b'{"Message":"pin: write /data/ipfs/x: no space left on device","Code":0}'
    node.refuses["pin/add"] = (500, body)
    with pytest.raises(PinDeferred) as put_off:
        await pin(kubo, raw(b"here")[0])
    assert "disk of the Kubo node is full" in put_off.value.detail
    assert "/data" not in put_off.value.detail


async def test_a_cancelled_pin_ends_the_fetch_and_keeps_the_blocks(kubo: Kubo, node: Node) -> None:
    """The node stops when we hang up; the next attempt goes on from there."""
    cid, blocks = chain(3)
    *_, end = blocks
    node.findable = {one: data for one, data in blocks.items() if one != end}
    node.patient.add(end)
    attempt = asyncio.create_task(pin(kubo, cid))
    while len(node.blocks) < 2:
        await node.found.wait()
        node.found.clear()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await until(lambda: not node.fetching)
    assert node.pins == {}
    assert set(node.blocks) == set(blocks) - {end}
    node.findable = {end: blocks[end]}
    assert (await pin(kubo, cid)).status is TrackerStatus.PINNED


async def test_kubo_meets_the_origins_before_it_fetches(kubo: Kubo, node: Node) -> None:
    """What only they have is pinned; one that cannot be reached is no failure, nor is one that
    is no node."""
    cid, blocks = raw(b"nobody else has it")
    node.nodes[origin(2).text] = blocks
    gateway = Multiaddr.parse("/ip4/8.8.8.8/tcp/80/http")
    seen = await kubo.pin(cid, ABSENT, silent, [origin(1), origin(2), gateway])
    assert seen.status is TrackerStatus.PINNED
    commands = [path.partition("?")[0] for path in node.requests]
    assert commands.index("/api/v0/swarm/connect") < commands.index("/api/v0/pin/add")
    assert node.asked("swarm/connect") == 2


async def test_few_origins_are_met(kubo: Kubo, node: Node) -> None:
    """However many there are; and none for what is pinned already."""
    cid = findable(node, raw(b"here"))
    origins = [origin(number) for number in range(20)]
    await kubo.pin(cid, ABSENT, silent, origins)
    assert node.asked("swarm/connect") == 10
    await kubo.pin(cid, ABSENT, silent, origins)
    assert node.asked("swarm/connect") == 10


async def test_an_origin_that_hangs_keeps_nobody(node: Node, outbound: HttpClient) -> None:
    node.silent_nodes.add(origin(1).text)
    cid = findable(node, raw(b"here"))
    kubo = Kubo(outbound, node.url, connect_seconds=0.1)
    seen = await kubo.pin(cid, ABSENT, silent, [origin(1)])
    assert seen.status is TrackerStatus.PINNED


async def test_the_node_says_where_it_can_be_reached(kubo: Kubo, node: Node) -> None:
    """Its own words; nowhere while it is offline."""
    assert await kubo.addresses() == []
    node.addresses = [origin(1).text, "/ip4/127.0.0.1/tcp/4001/p2p/" + PEER]
    assert await kubo.addresses() == node.addresses
    node.refuses["id"] = (500, b'{"Message": "no", "Code": 0, "Type": "error"}')
    with pytest.raises(UpstreamUnavailable):
        await kubo.addresses()
