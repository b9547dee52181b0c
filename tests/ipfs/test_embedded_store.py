"""The embedded store: a pin is kept when every block below it is, and not a moment sooner."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from content_gateway.content.cid import DAG_PB, Cid
from content_gateway.content.pins import Holding
from content_gateway.demo.publisher import directory
from content_gateway.errors import PinFailed, UpstreamUnavailable
from content_gateway.ipfs.embedded.blockstore import MAX_BLOCK_BYTES, Blockstore
from content_gateway.ipfs.embedded.retrieval import Retrieval
from content_gateway.ipfs.embedded.store import PARALLEL_BLOCKS, EmbeddedStore, Limits
from tests.fakes.origin import Origin
from tests.ipfs.dags import Dag, as_json, block, cbor, chain, link, pb, raw

FILES = {f"page{index}.html": f"<p>{index}".encode() for index in range(20)}
LEAF = raw(b"leaf")
SHARED = raw(b"shared")
CBOR = cbor({"x": link(LEAF), "y": [link(SHARED)]}, LEAF, SHARED)
TREES: dict[str, Dag] = {
    "a directory": directory(FILES),
    "one raw block": LEAF,
    "an empty directory": pb(),
    "all codecs": pb(as_json({"a": [{"/": str(CBOR[0])}]}, CBOR), LEAF),
    "a shared block": pb(pb(SHARED), pb(SHARED, LEAF), SHARED),
    "a chain": chain(30),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
async def test_every_block_of_a_dag_is_kept(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, tree: Dag
) -> None:
    """After submit the whole DAG is here, each block was fetched once, and look says pinned."""
    root, origin.blocks = tree
    assert await store.look(root) is Holding.ABSENT
    await store.submit(root)
    assert await store.look(root) is Holding.PINNED
    for cid, data in tree[1].items():
        assert blocks.get(cid) == data
        assert origin.asked_for(cid) == 1


async def test_a_dag_under_identity_links_needs_no_fetch(
    store: EmbeddedStore, origin: Origin
) -> None:
    """Blocks inside their own CID are kept without anybody being asked."""
    inside = Cid(LEAF[0].codec, 0, b"tiny")
    root, origin.blocks = pb((inside, {}))
    await store.submit(root)
    assert await store.look(root) is Holding.PINNED
    assert len(origin.requests) == 1


async def test_a_pin_submitted_again_fetches_nothing(store: EmbeddedStore, origin: Origin) -> None:
    """What is here is here: a second submit, or another pin that shares blocks, is cheap."""
    root, origin.blocks = directory(FILES)
    await store.submit(root)
    origin.requests.clear()
    await store.submit(root)
    assert origin.requests == []
    bigger, origin.blocks = directory(FILES | {"new.html": b"new"})
    await store.submit(bigger)
    assert len(origin.requests) == 2  # the new directory and the new file


async def test_a_missing_block_fails_the_pin_and_is_all_that_is_fetched_later(
    store: EmbeddedStore, origin: Origin
) -> None:
    """The pin is not marked while a block lacks; when the block turns up, only it is asked for."""
    root, everything = directory(FILES)
    missing = raw(FILES["page7.html"])[0]
    origin.blocks = everything | {}
    del origin.blocks[missing]
    with pytest.raises(PinFailed, match=str(missing)):
        await store.submit(root)
    assert await store.look(root) is Holding.ABSENT

    held = [cid for cid in everything if origin.asked_for(cid) and cid != missing]
    origin.blocks = everything
    origin.requests.clear()
    await store.submit(root)
    assert await store.look(root) is Holding.PINNED
    assert origin.asked_for(missing) == 1
    # Blocks that were under way when the walk failed may be asked for once more, no others.
    assert sum(origin.asked_for(cid) for cid in held) < PARALLEL_BLOCKS


async def test_wrong_bytes_never_become_part_of_a_pin(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """A gateway that serves wrong bytes fails the pin, until an honest one has the block."""
    root, everything = directory(FILES)
    wrong = raw(FILES["page3.html"])[0]
    origin.blocks = everything
    origin.corrupt.add(wrong)
    with pytest.raises(PinFailed, match="wrong bytes"):
        await store.submit(root)
    assert blocks.get(wrong) is None
    assert await store.look(root) is Holding.ABSENT
    other.blocks = {wrong: everything[wrong]}
    await store.submit(root)
    assert blocks.get(wrong) == everything[wrong]
    assert await store.look(root) is Holding.PINNED


async def test_an_outage_is_not_a_failed_pin(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """While no gateway can be asked nothing is known of the content; later it is brought in."""
    root, origin.blocks = directory(FILES)
    origin.go_dark()
    other.go_dark()
    with pytest.raises(UpstreamUnavailable):
        await store.submit(root)
    assert await store.look(root) is Holding.ABSENT
    origin.come_back()
    await store.submit(root)
    assert await store.look(root) is Holding.PINNED


async def test_rot_is_mended_by_the_next_submit(
    tmp_path: Path, store: EmbeddedStore, blocks: Blockstore, origin: Origin
) -> None:
    """A block that has rotted on disk is fetched again, and only it."""
    root, origin.blocks = directory(FILES)
    await store.submit(root)
    rotten = raw(FILES["page5.html"])[0]
    for path in (tmp_path / "blocks").rglob("*"):
        if path.is_file() and path.read_bytes() == FILES["page5.html"]:
            path.write_bytes(b"rot")
    assert blocks.get(rotten) is None
    origin.requests.clear()
    await store.submit(root)
    assert blocks.get(rotten) == FILES["page5.html"]
    assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("limits", "tree"),
    [
        (Limits(blocks=20), directory(FILES)),
        (Limits(size=100), directory(FILES)),
        (Limits(depth=28), chain(30)),
    ],
    ids=["blocks", "size", "depth"],
)
async def test_a_dag_over_a_limit_is_not_kept(
    blocks: Blockstore, retrieval: Retrieval, origin: Origin, limits: Limits, tree: Dag
) -> None:
    """One pin cannot fill the disk: it fails, saying which limit it passed."""
    root, origin.blocks = tree
    store = EmbeddedStore(blocks, retrieval.fetch, limits=limits)
    with pytest.raises(PinFailed, match="more than"):
        await store.submit(root)
    assert await store.look(root) is Holding.ABSENT


@pytest.mark.parametrize(
    ("limits", "tree"),
    [(Limits(blocks=21), directory(FILES)), (Limits(depth=29), chain(30))],
    ids=["blocks", "depth"],
)
async def test_a_dag_of_exactly_the_limit_is_kept(
    blocks: Blockstore, retrieval: Retrieval, origin: Origin, limits: Limits, tree: Dag
) -> None:
    """The limit is the last size that fits."""
    root, origin.blocks = tree
    await EmbeddedStore(blocks, retrieval.fetch, limits=limits).submit(root)


@pytest.mark.parametrize(
    ("codec", "data"), [(0x70, b"\xff"), (0x71, b"\xff"), (0x0129, b"{"), (0x78, b"blob")]
)
async def test_a_block_that_cannot_be_walked_fails_the_pin(
    store: EmbeddedStore, origin: Origin, codec: int, data: bytes
) -> None:
    """Right bytes that are no DAG, or of a codec we do not walk, cannot be kept whole."""
    cid = block(codec, data)
    origin.blocks = {cid: data}
    with pytest.raises(PinFailed, match="cannot be kept"):
        await store.submit(cid)
    assert await store.look(cid) is Holding.ABSENT


async def test_a_disk_that_refuses_is_an_outage(
    tmp_path: Path, store: EmbeddedStore, origin: Origin
) -> None:
    """What could not be written is tried again later; the content is not to blame."""
    root, origin.blocks = directory(FILES)
    (tmp_path / "blocks").rmdir()
    (tmp_path / "blocks").write_text("not a folder any more")
    with pytest.raises(UpstreamUnavailable, match="cannot be written"):
        await store.submit(root)


async def test_blocks_are_fetched_side_by_side_within_a_bound(
    store: EmbeddedStore, origin: Origin
) -> None:
    """A wide directory does not wait for one file after the other, nor ask for all at once."""
    root, origin.blocks = directory({f"{index}": bytes([index]) * 9 for index in range(40)})
    origin.delay = 0.05
    submitting = asyncio.create_task(store.submit(root))
    await asyncio.sleep(0.09)  # the root has come, the first files are under way
    assert 1 < len(origin.requests) <= 1 + PARALLEL_BLOCKS
    await submitting
    assert await store.look(root) is Holding.PINNED


async def test_a_large_block_does_not_hold_up_the_service(
    store: EmbeddedStore, origin: Origin
) -> None:
    """Reading the links of 2 MiB takes a while; requests are answered all along."""
    inside = b"\x12\x0a\x0a\x08\x01\x55\x00\x04tiny"
    node = inside * (MAX_BLOCK_BYTES // len(inside))
    cid = block(DAG_PB, node)
    origin.blocks = {cid: node}
    submitting = asyncio.create_task(store.submit(cid))
    longest, start = 0.0, monotonic()
    while not submitting.done():
        begun = monotonic()
        await asyncio.sleep(0.001)
        longest = max(longest, monotonic() - begun)
    await submitting
    assert longest < (monotonic() - start) / 2


async def test_a_submit_that_is_cancelled_can_be_taken_up_again(
    store: EmbeddedStore, origin: Origin
) -> None:
    """A stop in the middle costs the blocks under way, not the work done."""
    root, origin.blocks = chain(12)
    origin.delay = 0.02
    submitting = asyncio.create_task(store.submit(root))
    while len(origin.requests) < 6:
        await asyncio.sleep(0.005)
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert await store.look(root) is Holding.ABSENT
    done = len(origin.requests) - 1
    origin.requests.clear()
    await store.submit(root)
    assert len(origin.requests) <= 12 - done + 1
    assert await store.look(root) is Holding.PINNED
