"""The embedded store: a pin is kept when every block below it is, and not a moment sooner."""

import asyncio
from threading import Event

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.database import BLOCKS
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import PARALLEL_BLOCKS, EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.demo.publisher import directory
from content_gateway.errors import (
    Overloaded,
    PinDeferred,
    PinFailed,
    StorageUnavailable,
)
from content_gateway.ipld import car
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import ABSENT, pin, status
from tests.backends.stores import corrupt, count, number
from tests.fakes.origin import Origin
from tests.ipld.dags import Dag, as_json, block, cbor, chain, file, link, pb, raw
from tests.lag import loop_lag
from tests.waiting import until

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
    "a file": file(400, 100),
}


@pytest.mark.parametrize("cars", [True, False], ids=["cars", "raw blocks only"])
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
async def test_every_block_of_a_dag_is_kept(
    store: EmbeddedStore, origin: Origin, other: Origin, tree: Dag, cars: bool
) -> None:
    """After a pin the whole DAG is here, and its status is pinned."""
    root, origin.blocks = tree
    other.blocks = tree[1]
    origin.cars = other.cars = cars
    assert await status(store, root) is TrackerStatus.ABSENT
    seen = await pin(store, root)
    assert seen == (await store.status([root]))[root]
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.PINNED, 1, 1)
    assert [peer.name for peer in seen.peers] == ["embedded"]
    for cid, data in tree[1].items():
        assert await store.block(cid) == data
        tries = 3 if cid == root and not cars else 1  # a CAR of the root from each, in vain
        assert origin.asked_for(cid) + other.asked_for(cid) <= tries


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_dag_comes_in_one_request(
    store: EmbeddedStore, origin: Origin, other: Origin, backwards: bool
) -> None:
    """A CAR brings all of it, in whatever order its blocks are."""
    root, origin.blocks = file(300, 50)
    other.blocks = origin.blocks
    origin.backwards = other.backwards = backwards
    await pin(store, root)
    assert len(origin.requests) + len(other.requests) == 1
    assert origin.asked_for_cars() + other.asked_for_cars() == 1


async def test_a_dag_of_one_block_comes_as_that_block(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """A raw root has no links: there is nothing that a CAR could add."""
    root, origin.blocks = LEAF
    other.blocks = origin.blocks
    await pin(store, root)
    assert origin.requests + other.requests == [f"/ipfs/{root}?format=raw"]


async def test_what_nobody_asked_for_is_not_kept(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Blocks that are right and no part of the DAG do not get onto the disk by a CAR."""
    root, origin.blocks = directory(FILES)
    origin.litter = other.litter = [
        car.section(*next(iter(raw(b"%d" % n)[1].items()))) for n in range(50)
    ]
    other.blocks = origin.blocks
    await pin(store, root)
    assert await count(blocks) == len(origin.blocks)
    assert await store.block(raw(b"7")[0]) is None


async def test_a_gateway_that_floods_is_given_up(
    blocks: Blockstore, store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """A CAR with many blocks that nobody wants is broken off, and the pin is completed by raw
    blocks."""
    root, origin.blocks = directory(FILES)
    other.go_dark()
    noise = raw(bytes(1_000_000))
    origin.litter = [car.section(noise[0], bytes(1_000_000))] * 60
    await pin(store, root)
    assert await count(blocks) == len(origin.blocks)
    assert origin.asked_for_cars() == 1
    assert origin.asked_for_blocks() >= len(origin.blocks)


async def test_a_dag_under_identity_links_needs_no_fetch(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Blocks inside their own CID are neither fetched nor stored, but what they link to is."""
    inside = Cid(RAW, 0, b"tiny")
    await pin(store, inside)
    assert await status(store, inside) is TrackerStatus.PINNED
    assert origin.requests == other.requests == []
    node = next(iter(pb(LEAF)[1].values()))
    holder = Cid(DAG_PB, 0, node)
    root, origin.blocks = pb((inside, {}), (holder, {}))
    origin.blocks |= LEAF[1]
    other.blocks = origin.blocks
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED
    assert await count(blocks) == 2
    assert await store.block(LEAF[0]) == b"leaf"
    assert await store.block(inside) == b"tiny"


async def test_what_is_here_is_not_fetched_again(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """A second pin asks nobody; another one that shares blocks asks for what is new."""
    other.go_dark()
    origin.cars = False
    root, origin.blocks = directory(FILES)
    await pin(store, root)
    origin.requests.clear()
    await pin(store, root)
    assert origin.requests == []
    bigger, origin.blocks = directory(FILES | {"new.html": b"new"})
    await pin(store, bigger)
    asked = {cid for cid in origin.blocks if origin.asked_for(cid)}
    assert asked == {bigger, raw(b"new")[0]}


async def test_a_missing_block_fails_the_pin_and_is_all_that_is_fetched_later(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """The pin is not complete while a block lacks; when it turns up, only it is asked for."""
    root, origin.blocks = directory(FILES)
    missing = raw(FILES["page7.html"])[0]
    origin.hidden.add(missing)
    with pytest.raises(PinFailed, match=str(missing)) as failed:
        await pin(store, root)
    assert failed.value.detail.count("It answered 404.") == 2
    assert await status(store, root) is TrackerStatus.ABSENT

    held = {cid for cid in origin.blocks if await store.block(cid) is not None}
    assert len(held) >= 7  # a CAR came as far as the block that is missing
    origin.hidden.clear()
    origin.requests.clear()
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED
    assert origin.asked_for(missing) == 1
    assert not any(origin.asked_for(cid) for cid in held)


async def test_wrong_bytes_never_become_part_of_a_pin(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """A gateway that serves a wrong byte fails the pin, until an honest one has the block."""
    root, everything = directory(FILES)
    wrong = raw(FILES["page3.html"])[0]
    origin.blocks = everything
    origin.corrupt.add(wrong)
    with pytest.raises(PinFailed, match="wrong bytes") as failed:
        await pin(store, root)
    assert origin.url.removeprefix("http://") + ": It served wrong bytes." in failed.value.detail
    assert await store.block(wrong) is None
    assert await status(store, root) is TrackerStatus.ABSENT
    other.blocks = {wrong: everything[wrong]}
    origin.requests.clear()
    await pin(store, root)
    assert origin.asked_for(wrong) == 0  # not used again for that block
    assert await store.block(wrong) == everything[wrong]
    assert await status(store, root) is TrackerStatus.PINNED


async def test_a_wrong_byte_in_a_car_is_caught_named_and_gone_around(
    store: EmbeddedStore, origin: Origin, other: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    """What came before it is kept; the block comes from elsewhere; the log names the gateway."""
    root, origin.blocks = file(300, 1000)
    leaves = [cid for cid in origin.blocks if cid.codec == RAW]
    other.blocks = origin.blocks
    other.cars = False
    origin.corrupt.add(leaves[100])
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED
    for cid, data in origin.blocks.items():
        assert await store.block(cid) == data
    assert origin.asked_for(leaves[100]) == 0
    assert other.asked_for(leaves[100]) == 1
    assert origin.asked_for_cars() == 1  # and no second one
    said = capsys.readouterr()
    assert origin.url.removeprefix("http://") in said.out + said.err
    assert str(leaves[100]) in said.out + said.err


@pytest.mark.parametrize("cut", [1, 2, 50, 177, 300])
async def test_a_gateway_that_dies_midway_costs_what_it_had_not_sent(
    store: EmbeddedStore, origin: Origin, other: Origin, cut: int
) -> None:
    """The next requests go on from there: no block is asked for twice."""
    root, origin.blocks = file(300, 100)
    other.blocks = origin.blocks
    origin.cut_after = other.cut_after = cut
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED
    raws = origin.asked_for_blocks() + other.asked_for_blocks()
    assert origin.car_blocks + other.car_blocks + raws <= len(origin.blocks) + 3 * 4


@pytest.mark.parametrize(
    ("limit", "dag"),
    [
        (("blocks", 21), directory(FILES)),
        (("size", 4), LEAF),
        (("depth", 29), chain(30)),
    ],
)
async def test_a_dag_over_a_limit_is_not_kept(
    blocks: Blockstore,
    gateways: TrustlessGateways,
    origin: Origin,
    limit: tuple[str, int],
    dag: Dag,
) -> None:
    """One pin cannot fill the disk: it fails, saying which limit it passed."""
    root, origin.blocks = dag
    what, most = limit
    store = EmbeddedStore(blocks, gateways, limits=DagLimits(**{what: most - 1}))
    with pytest.raises(PinFailed, match="more than"):
        await pin(store, root)
    assert await status(store, root) is TrackerStatus.ABSENT
    await pin(EmbeddedStore(blocks, gateways, limits=DagLimits(**{what: most})), root)


@pytest.mark.parametrize(("codec", "data"), [(0x70, b"\xff"), (0x71, b"\xff"), (0x0129, b"{")])
async def test_a_block_that_cannot_be_walked_fails_the_pin(
    store: EmbeddedStore, origin: Origin, codec: int, data: bytes
) -> None:
    cid = block(codec, data)
    origin.blocks = {cid: data}
    origin.cars = False
    with pytest.raises(PinFailed, match="cannot be kept"):
        await pin(store, cid)
    assert await status(store, cid) is TrackerStatus.ABSENT


@pytest.mark.parametrize(
    ("cid", "word"),
    [
        (block(0x78, b"blob"), "git-raw"),
        (block(0x85, b"jose"), "dag-jose"),
        (Cid(RAW, 0x1E, bytes(32)), "blake3"),
    ],
)
async def test_kinds_that_cannot_be_kept_are_named(
    store: EmbeddedStore, origin: Origin, cid: Cid, word: str
) -> None:
    """Whether it is the root or deep inside: the reason says which kind it is, nobody is asked."""
    with pytest.raises(PinFailed, match=word):
        await pin(store, cid)
    assert origin.requests == []
    root, origin.blocks = pb((cid, {}))
    with pytest.raises(PinFailed, match=f"{word}.*{cid}"):
        await pin(store, root)


async def limit(blocks: Blockstore, pages: int) -> None:
    await blocks.write(lambda file: file.execute(f"PRAGMA max_page_count = {pages}").fetchall())


async def test_a_full_disk_is_our_own_fault_and_passes(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """What could not be written is tried again, without a restart; the content is not to blame."""

    root, origin.blocks = file(200, 20_000)
    other.blocks = origin.blocks
    await limit(blocks, await number(blocks, "PRAGMA page_count") + 50)
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        await pin(store, root)
    assert await status(store, root) is TrackerStatus.ABSENT
    assert origin.mood == "well"
    await limit(blocks, 1_000_000)
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED


async def test_a_queue_of_writes_that_is_full_is_our_own_overload(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """The error is Overloaded, and blames neither an upstream nor the content."""
    begun, go_on = Event(), Event()

    def stall(_: object) -> None:
        begun.set()
        go_on.wait(60)

    slow = [asyncio.ensure_future(blocks.write(stall))]
    await asyncio.to_thread(begun.wait, 60)  # the thread is at it, and what comes now waits
    most = BLOCKS.max_queued + BLOCKS.max_group - 1
    slow += [asyncio.ensure_future(blocks.write(lambda _: None)) for _ in range(most)]
    await asyncio.sleep(0)
    try:
        with pytest.raises(Overloaded):
            await pin(store, LEAF[0])
        with pytest.raises(Overloaded):
            await store.unpin(LEAF[0])
    finally:
        go_on.set()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_blocks_are_fetched_side_by_side_within_a_bound(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """A wide directory does not wait for one file after the other, nor ask for all at once."""
    root, everything = directory({f"{index}": bytes([index]) * 9 for index in range(100)})
    begun = await blocks.begin(root)  # only the root is here
    await blocks.store_blocks(
        begun, Wantlist(root, DagLimits()), [(root.multihash, everything[root])]
    )
    origin.mood = other.mood = "hang"
    pinning = asyncio.create_task(pin(store, root))
    await until(lambda: len(origin.requests) + len(other.requests) >= PARALLEL_BLOCKS)
    assert len({*origin.requests, *other.requests}) == PARALLEL_BLOCKS
    assert origin.requests  # both gateways share the work
    assert other.requests
    pinning.cancel()
    await asyncio.gather(pinning, return_exceptions=True)


async def test_a_large_block_does_not_hold_up_the_service(
    store: EmbeddedStore, origin: Origin
) -> None:
    """Reading the links of 2 MiB takes a while; requests are answered all along."""
    inside = b"\x12\x0a\x0a\x08\x01\x55\x00\x04tiny"
    node = inside * (MAX_BLOCK_BYTES // len(inside))
    cid = block(DAG_PB, node)
    origin.blocks = {cid: node}
    origin.cars = False  # making a CAR of it would hold up the miniature, which lives here too
    async with loop_lag() as lag:
        await pin(store, cid)
    print(lag)
    assert lag.worst < 0.05


async def test_a_pin_that_is_cancelled_can_be_taken_up_again(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """A stop in the middle costs the blocks under way, not the work done."""
    root, origin.blocks = chain(12)
    other.go_dark()
    origin.cars = False
    origin.delay = 0.02
    pinning = asyncio.create_task(pin(store, root))
    await until(lambda: origin.asked_for_blocks() >= 7)
    pinning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pinning
    assert await status(store, root) is TrackerStatus.ABSENT
    origin.requests.clear()
    await pin(store, root)
    assert origin.asked_for_blocks() <= 12 - 6 + 1
    assert await status(store, root) is TrackerStatus.PINNED


@pytest.mark.parametrize("turns", range(0, 120, 6))
async def test_a_pin_may_be_cancelled_at_any_moment(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin, turns: int
) -> None:
    """Whenever it is cancelled, the next pin completes it and no block is left over."""
    root, origin.blocks = directory(FILES)
    other.blocks = origin.blocks
    pinning = asyncio.create_task(pin(store, root))
    for _ in range(turns):
        await asyncio.sleep(0)
    pinning.cancel()
    await asyncio.gather(pinning, return_exceptions=True)
    await pin(store, root)
    assert await status(store, root) is TrackerStatus.PINNED
    assert await count(blocks) == len(origin.blocks)


async def test_progress_counts_what_is_here(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """Blocks and bytes only grow, and end at the whole DAG; not one call for each block."""
    root, origin.blocks = file(300, 100)
    other.blocks = origin.blocks
    seen: list[tuple[int, int]] = []
    await store.pin(root, ABSENT, lambda blocks, size: seen.append((blocks, size)))
    assert seen == sorted(seen)
    assert seen[-1] == (len(origin.blocks), sum(map(len, origin.blocks.values())))
    assert len(seen) < 100


async def test_a_corrupt_node_is_fetched_again(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """A stored node whose bytes are wrong counts as missing when its pin goes on."""
    root, origin.blocks = pb(pb(LEAF), pb(SHARED))
    other.blocks = origin.blocks
    nodes = [cid for cid in origin.blocks if cid.codec == DAG_PB and cid != root]
    origin.hidden = other.hidden = {LEAF[0]}
    with pytest.raises(PinFailed):
        await pin(store, root)
    for node in nodes:
        await corrupt(blocks, node, b"\xff")
    origin.hidden = other.hidden = set()
    await pin(store, root)
    for cid, data in origin.blocks.items():
        assert await store.block(cid) == data


async def test_two_pins_of_overlapping_dags_at_once(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    one, first = directory(FILES)
    two, second = directory(FILES | {"more": b"more"})
    origin.blocks = other.blocks = first | second
    await asyncio.gather(pin(store, one), pin(store, two))
    assert await count(blocks) == len(first | second)
    assert {entry.cid async for entry in store.pinset()} == {one, two}


async def test_a_pin_that_is_unpinned_while_it_comes_in_is_not_called_complete(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Another process released it: what was fetched goes, and the pin says so."""
    root, origin.blocks = chain(12)
    other.go_dark()
    origin.cars = False
    origin.delay = 0.02
    pinning = asyncio.create_task(pin(store, root))
    await until(lambda: len(origin.requests) >= 5)
    await store.unpin(root)
    with pytest.raises(PinDeferred, match="unpinned"):
        await pinning
    assert await status(store, root) is TrackerStatus.ABSENT


async def test_the_pinset_has_complete_pins_only(store: EmbeddedStore, origin: Origin) -> None:
    leaves = [raw(b"%d" % index) for index in range(30)]
    for cid, data in leaves:
        origin.blocks |= data
        await pin(store, cid)
    with pytest.raises(PinFailed):
        await pin(store, raw(b"nobody has this")[0])
    assert [entry.cid async for entry in store.pinset()] == [cid for cid, _ in leaves]
    assert store.batch_age == 0
