"""Verifying the store: corrupt blocks are found, named with their pins, deleted, and fetched
again."""

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.verify import CorruptBlock, stock, verify
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.errors import PinDeferred
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import pin, pinset, silent, status
from tests.backends.stores import collected, corrupt, sections
from tests.backends.test_blockstore import put
from tests.fakes.origin import Origin
from tests.ipld.dags import file, pb, raw


async def test_a_sound_store_has_nothing_to_say(blocks: Blockstore) -> None:
    dag = file(300, 1000)
    await put(blocks, dag)
    progress: list[tuple[int, int]] = []
    assert await verify(blocks, lambda *now: progress.append(now), _unexpected) == 0
    assert progress[-1] == (len(dag[1]), sum(map(len, dag[1].values())))
    assert progress == sorted(set(progress))


def _unexpected(corrupt: CorruptBlock) -> None:
    raise AssertionError(corrupt)


@pytest.mark.parametrize("which", ["leaf", "node"])
async def test_corruption_is_named_dropped_and_mended(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin, which: str
) -> None:
    """Its pins are absent then, others not; pinning brings in what lacks, and only that."""
    shared = pb(raw(b"shared"), raw(b"more"))
    one, two, third = pb(shared, raw(b"1")), pb(shared, raw(b"2")), pb(raw(b"3"))
    for dag in (one, two, third):
        await put(blocks, dag)
        origin.blocks |= dag[1]
    other.go_dark()
    bad = raw(b"shared")[0] if which == "leaf" else shared[0]
    await corrupt(blocks, bad, b"rot")
    found: list[CorruptBlock] = []
    assert await verify(blocks, silent, found.append) == 1
    (damaged,) = found
    assert damaged.block.multihash == bad.multihash
    assert set(damaged.pins) == {one[0], two[0]}
    assert damaged.size == 3
    assert await store.block(bad) is None
    assert [await status(store, dag[0]) for dag in (one, two, third)] == [
        TrackerStatus.ABSENT,
        TrackerStatus.ABSENT,
        TrackerStatus.PINNED,
    ]
    assert await verify(blocks, silent, _unexpected) == 0
    origin.cars = False
    await pin(store, one[0])
    await pin(store, two[0])
    assert origin.asked_for_blocks() == 1
    assert await store.block(bad) == origin.blocks[bad]
    await collected(blocks)


async def test_a_pin_under_way_that_loses_a_block_is_not_called_complete(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """A block dropped between its fetch and the end of the pin is noticed."""
    dag = file(20, 50)
    begun, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
    await blocks.store_blocks(begun, wantlist, sections(dag))
    assert wantlist.is_complete
    await corrupt(blocks, list(dag[1])[3], b"rot")
    assert await verify(blocks, silent, lambda _: None) == 1
    with pytest.raises(PinDeferred, match="lost"):
        await blocks.finish(begun)
    assert await status(store, dag[0]) is TrackerStatus.ABSENT


async def test_the_stock_is_counted(blocks: Blockstore) -> None:
    """Blocks, pins whole and not, and the file's size."""
    dag = file(50, 1000)
    await put(blocks, dag)
    await blocks.begin(raw(b"not yet")[0])
    kept = await stock(blocks)
    assert (kept.blocks, kept.pins, kept.incomplete) == (len(dag[1]), 1, 1)
    assert kept.file_bytes > 50_000
    assert kept.free_bytes >= 0


async def test_the_pinset_leaves_out_what_a_sample_finds_corrupt(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """A block with other bytes, and one that is gone without a word: their pins are not listed,
    and are whole again once they are asked for."""
    one, two, third = pb(raw(b"1"), raw(b"x")), pb(raw(b"2")), pb(raw(b"3"))
    for dag in (one, two, third):
        await put(blocks, dag)
        origin.blocks |= dag[1]
    other.go_dark()
    await corrupt(blocks, raw(b"1")[0], b"rot")
    gone = raw(b"2")[0].multihash
    await blocks.write(lambda file: file.execute("DELETE FROM blocks WHERE multihash = ?", (gone,)))
    assert await pinset(store) == {third[0]}
    for dag in (one, two):
        assert await status(store, dag[0]) is TrackerStatus.ABSENT
        await pin(store, dag[0])
    assert await pinset(store) == {one[0], two[0], third[0]}
    assert await verify(blocks, silent, _unexpected) == 0
