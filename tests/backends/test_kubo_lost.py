"""What a Kubo has pinned and lost: found by a sample of blocks, told, and brought in again.

Its index says "pinned" all the while, and adding the pin again would drop it first."""

from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import Listed, TrackerStatus
from tests.backends.backends import FAILED, pin, refused
from tests.fakes.kubo import Kubo as Node
from tests.ipld.dags import Dag, pb, raw

IN_DOUBT: dict[Cid, float] = {}  # no word is good enough, but the node's own, now


async def kept(node: Node, kubo: Kubo, dag: Dag) -> Cid:
    cid, blocks = dag
    node.findable |= blocks
    await pin(kubo, cid)
    return cid


def lose(node: Node, cid: Cid) -> None:
    """Take a block from the node's disk, behind the back of its pins."""
    del node.blocks[cid]
    node.findable.pop(cid, None)


async def listed(kubo: Kubo) -> dict[Cid, Listed]:
    return {entry.cid: entry async for entry in kubo.pinset()}


async def test_a_listing_says_what_its_sample_lacks(kubo: Kubo, node: Node) -> None:
    """A leaf that is gone is missed, and so is a root without links; the others are there."""
    leaf, alone = raw(b"leaf"), raw(b"alone")
    whole = await kept(node, kubo, pb(raw(b"a"), raw(b"b")))
    broken, gone = await kept(node, kubo, pb(leaf, raw(b"c"))), await kept(node, kubo, alone)
    assert {entry.replicas for entry in (await listed(kubo)).values()} == {1}
    lose(node, leaf[0])
    lose(node, alone[0])
    entries = await listed(kubo)
    assert {cid: entries[cid].replicas for cid in (whole, broken, gone)} == {
        whole: 1,
        broken: 0,
        gone: 0,
    }
    assert set(node.pins) == {str(cid) for cid in (whole, broken, gone)}


async def test_a_sample_has_a_limit(kubo: Kubo, node: Node) -> None:
    for number in range(200):
        cid, blocks = raw(b"%d" % number)
        node.blocks |= blocks
        node.pin(cid)
    for _ in range(3):
        before = node.asked("refs")
        assert len(await listed(kubo)) == 200
        assert 10 < node.asked("refs") - before <= 50


async def test_what_is_in_doubt_is_walked_and_what_is_lost_is_said(kubo: Kubo, node: Node) -> None:
    """With the node's reason; what is not in doubt costs one question."""
    leaf = raw(b"leaf")
    cid = await kept(node, kubo, pb(leaf))
    lose(node, leaf[0])
    assert (await kubo.status([cid], {cid: 0.0}))[cid].status is TrackerStatus.PINNED
    seen = (await kubo.status([cid], IN_DOUBT))[cid]
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.LOST, 0, 1)
    assert "not" in (seen.reason or "")
    assert (await kubo.status([cid], {cid: 0.0}))[cid].status is TrackerStatus.LOST


async def test_what_was_lost_is_brought_in_and_never_added_again(kubo: Kubo, node: Node) -> None:
    """While nobody has it, it has failed; the pin is there all the time, and its other blocks."""
    leaf, other = raw(b"leaf"), raw(b"other")
    cid = await kept(node, kubo, pb(leaf, other))
    adds = node.asked("pin/add")
    lose(node, leaf[0])
    seen = (await kubo.status([cid], IN_DOUBT))[cid]
    assert await refused(kubo, cid)
    assert (await kubo.status([cid], {cid: 9.0}))[cid].status is TrackerStatus.LOST
    node.findable |= leaf[1]
    assert (await pin(kubo, cid, seen)).status is TrackerStatus.PINNED
    assert (await kubo.status([cid], IN_DOUBT))[cid].status is TrackerStatus.PINNED
    assert node.asked("pin/add") == adds
    assert node.pins == {str(cid): "recursive"}
    assert (await pin(kubo, cid, FAILED)).status is TrackerStatus.PINNED


async def test_a_node_that_cannot_say_what_it_lacks_lacks_nothing(kubo: Kubo, node: Node) -> None:
    """Where `refs` is refused, as by a proxy, only the index is left to go by."""
    cid = await kept(node, kubo, pb(raw(b"leaf")))
    node.refuses["refs"] = (403, b"no")
    assert (await kubo.status([cid], IN_DOUBT))[cid].status is TrackerStatus.PINNED
    assert (await listed(kubo))[cid].replicas == 1
