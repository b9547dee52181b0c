"""Blocks below a root that the denylist names: they are neither fetched nor served."""

import asyncio
import time
from pathlib import Path

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.denied import Denied, denied
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import Check
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import Blocked, PinFailed
from content_gateway.ipld.selection import Selection
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import pin, status
from tests.backends.stores import collected, count
from tests.backends.test_serving import served
from tests.denylist.spelling import bare_multihash, legacy, modern
from tests.fakes.origin import Origin
from tests.ipld.dags import Dag, cbor, file, link, pb, raw

BAD = raw(b"bad")
INNER = pb(raw(b"good"), pb(BAD))
TREE = pb(raw(b"first"), INNER)


class Lists:
    """A list that a test changes: a new version is asked from then on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "list.deny"
        self._path.write_text("# nothing\n")
        self._now = 0.0
        self.denylist = Denylist(self._path, None, clock=lambda: self._now)

    def block(self, *rules: str) -> None:
        self._path.write_text("".join(f"{rule}\n" for rule in ("# now", *rules)))
        self._now += 10.0
        assert self.denylist.checker() is not None

    def checker(self) -> Check | None:
        return self.denylist.checker()


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


@pytest.fixture
def store(blocks: Blockstore, gateways: TrustlessGateways, lists: Lists) -> EmbeddedStore:
    return EmbeddedStore(blocks, gateways, checker=lists.checker)


def rules_of(dag: Dag) -> list[str]:
    """The ways in which a list may speak of its root."""
    cid = dag[0]
    as_raw = Cid(RAW, cid.hash_code, cid.digest)
    text = str(as_raw)
    return [f"/ipfs/{cid}", f"/ipfs/{as_raw}/*", legacy(f"{cid}/"), modern(bare_multihash(text))]


@pytest.mark.parametrize("way", range(4))
async def test_a_pin_of_what_holds_a_blocked_block_fails_and_leaves_nothing(
    store: EmbeddedStore, blocks: Blockstore, lists: Lists, origin: Origin, way: int
) -> None:
    """However the list spells it: the reason names the block, and nothing of it stays."""
    origin.blocks = TREE[1]
    lists.block(rules_of(BAD)[way])
    for origin.cars in (True, False):
        with pytest.raises(PinFailed, match=f"{BAD[0]} is blocked by the operator"):
            await pin(store, TREE[0])
        assert await status(store, TREE[0]) is TrackerStatus.ABSENT
        await collected(blocks)
        assert await count(blocks) == 0
    assert origin.asked_for(BAD[0]) == 0
    lists.block("/ipfs/" + str(raw(b"something else")[0]))
    await pin(store, TREE[0])
    assert await status(store, TREE[0]) is TrackerStatus.PINNED


async def test_a_blocked_block_ends_a_car_of_what_is_above_it(
    store: EmbeddedStore, lists: Lists, origin: Origin, other: Origin
) -> None:
    """A rule that was added later holds for stored blocks at once, and until it is removed."""
    origin.blocks, other.blocks = TREE[1], TREE[1]
    await pin(store, TREE[0])
    assert len(await served(store, TREE[0])) == len(TREE[1])
    for rule in rules_of(BAD):
        lists.block(rule)
        for cid in (TREE[0], INNER[0]):
            with pytest.raises(Blocked, match=str(BAD[0])):
                await served(store, cid)
        assert len(await served(store, TREE[0], Selection("block"))) == 1
        assert len(await served(store, raw(b"good")[0])) == 1
    lists.block("/ipfs/" + str(raw(b"something else")[0]))
    assert len(await served(store, TREE[0])) == len(TREE[1])


async def test_a_list_that_changes_while_a_car_is_sent_ends_it(
    store: EmbeddedStore, lists: Lists, origin: Origin, other: Origin
) -> None:
    dag = file(600, 5_000)
    origin.blocks, other.blocks = dag[1], dag[1]
    await pin(store, dag[0])
    pieces = store.car(dag[0])
    assert await anext(pieces)
    lists.block("/ipfs/" + str(list(dag[1])[590]))
    with pytest.raises(Blocked):
        async for _ in pieces:
            pass


async def test_what_was_pinned_before_the_list_named_it_is_not_taken_over(
    store: EmbeddedStore, blocks: Blockstore, lists: Lists, origin: Origin, other: Origin
) -> None:
    """A new root over a pinned DAG is not walked again, but each of its blocks is checked against
    the list."""
    root = pb(TREE, raw(b"root"))
    origin.blocks, other.blocks = root[1], root[1]
    await pin(store, TREE[0])
    lists.block(f"/ipfs/{BAD[0]}")
    with pytest.raises(PinFailed, match="blocked by the operator"):
        await pin(store, root[0])
    assert await status(store, TREE[0]) is TrackerStatus.PINNED  # what the operator does about it
    await collected(blocks)
    assert await count(blocks) == len(TREE[1])
    found: list[Denied] = []
    check = lists.checker()
    assert check is not None
    assert await denied(blocks, check, found.append) == 1
    assert [(each.block.digest, each.pins) for each in found] == [(BAD[0].digest, [TREE[0]])]


async def test_what_is_pinned_is_not_dropped_because_a_list_names_it(
    store: EmbeddedStore, blocks: Blockstore, lists: Lists, origin: Origin, other: Origin
) -> None:
    """Another request for it changes nothing: the list may be corrected."""
    origin.blocks, other.blocks = TREE[1], TREE[1]
    await pin(store, TREE[0])
    lists.block(f"/ipfs/{TREE[0]}", f"/ipfs/{BAD[0]}")
    await pin(store, TREE[0])
    assert await status(store, TREE[0]) is TrackerStatus.PINNED
    assert await count(blocks) == len(TREE[1])


async def test_a_link_in_another_codec_is_asked_about_as_well(
    store: EmbeddedStore, lists: Lists, origin: Origin, other: Origin
) -> None:
    """A rule for a CID speaks of its hash, whatever the codec of the link."""
    inner = cbor([link(raw(b"leaf"))], raw(b"leaf"))
    root = pb((Cid(RAW, 0x12, inner[0].digest), {}), raw(b"other"))
    origin.blocks = other.blocks = root[1] | inner[1]
    lists.block(f"/ipfs/{inner[0]}")
    with pytest.raises(PinFailed, match="blocked by the operator"):
        await pin(store, root[0])


async def test_asking_about_each_block_is_cheap(lists: Lists) -> None:
    """At most 100 µs of CPU a block, also with a list of double hashes, which are computed again:
    it is 11 µs."""
    cids = [raw(b"%d" % number)[0] for number in range(2_000)]
    for rules in (
        [f"/ipfs/{raw(b'x')[0]}"],
        [legacy(f"{raw(b'x')[0]}/"), f"/ipfs/{raw(b'y')[0]}"],
    ):
        lists.block(*rules)
        check = lists.checker()
        assert check is not None
        before = time.thread_time()
        for cid in cids:
            check(cid)
        assert (time.thread_time() - before) / len(cids) < 100e-6


async def test_no_list_costs_nothing(tmp_path: Path) -> None:
    assert Denylist(None, None).checker() is None
    (tmp_path / "names.deny").write_text("/ipns/example.com\n")
    denylist = Denylist(tmp_path / "names.deny", None)
    assert denylist.checker() is None
    denylist.close()
    await asyncio.sleep(0)
