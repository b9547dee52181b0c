"""DAGs made to cost us more than they cost whoever made them: links that lead nowhere, over and
over, inside of CIDs and outside. What they cost is bounded, and paid once."""

import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Sequence
from hashlib import sha256

import pytest

from content_gateway.backends.embedded import ingest
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist, WantRoom
from content_gateway.codecs.multiformats import BASE32
from content_gateway.errors import Overloaded, PinFailed
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.model.cid import DAG_CBOR, DAG_JSON, DAG_PB, Cid
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import pin, status
from tests.backends.stores import collected, count, number
from tests.backends.test_blockstore import put
from tests.backends.test_serving import served
from tests.fakes.origin import Origin
from tests.ipld.dags import Dag, block, cbor, file, link, pb, raw
from tests.lag import MOST_LAG, loop_lag

LINKS = 255_000
_EMPTY = b"\x12\x06\x0a\x04\x01\x55\x00\x00"  # a dag-pb link to no bytes at all, inside its CID


def empty_links(seed: int, links: int = LINKS) -> Dag:
    """A dag-pb block of that many identity links of four bytes, told apart by *seed*."""
    data = _EMPTY * links + b"\x0a\x08" + seed.to_bytes(8, "big")
    cid = block(DAG_PB, data)
    return cid, {cid: data}


async def cpu(work: Awaitable[object]) -> float:
    """The seconds of CPU that this process spends until *work* is done."""
    before = time.process_time()
    await work
    return time.process_time() - before


@pytest.mark.parametrize("cars", [True, False], ids=["cars", "raw blocks only"])
async def test_links_that_lead_nowhere_are_read_once(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, cars: bool
) -> None:
    """Six roots over the same blocks, and their CARs for clients without a key, cost less than the
    first pin, not six times as much; the loop is not held."""
    parts = [empty_links(seed) for seed in range(3)]
    dag = pb(*parts)
    roots = [pb(dag, data=b"root %d" % n) for n in range(6)]
    over = [pb(*parts, data=b"over %d" % n) for n in range(6)]  # not through a root of a pin
    for _, some in (*roots, *over):
        origin.blocks |= some
    origin.quick_cars, origin.cars = cars, cars

    async def pins(dags: Sequence[Dag]) -> None:
        for cid, _ in dags:
            await pin(store, cid)
            assert await status(store, cid) is TrackerStatus.PINNED

    async with loop_lag() as lag:
        first = await cpu(pins([dag]))
        later = await cpu(pins(roots))
        beside = await cpu(pins(over)) if not cars else 0.0
        sent = await cpu(asyncio.gather(*(served(store, cid) for cid, _ in roots)))
    print(f"first {first:.2f} later {later:.2f} beside {beside:.2f} sent {sent:.2f} {lag}")
    assert later < first
    assert beside < first
    assert sent < first
    assert lag.worst < MOST_LAG
    if cars:
        return
    assert await count(blocks) == 3 + 1 + 12


@pytest.mark.parametrize("of", ["dag-pb", "dag-cbor", "dag-json", "nodes inside"])
async def test_every_link_counts(
    blocks: Blockstore, gateways: TrustlessGateways, origin: Origin, of: str
) -> None:
    """Links inside of CIDs and links that stand twice are work: a DAG of more of them than the
    limit is refused, whatever it is written in, and nobody is held up by it."""
    data = {
        "dag-pb": _EMPTY * LINKS,
        "nodes inside": b"\x12\x06\x0a\x04\x01\x70\x00\x00" * LINKS,
        "dag-cbor": b"\x9a" + LINKS.to_bytes(4, "big") + b"\xd8\x2a\x45\0\x01\x55\0\0" * LINKS,
        "dag-json": b"[" + b",".join([b'{"/":"bafkqaaa"}'] * 120_000) + b"]",
    }[of]
    codec = {"dag-cbor": DAG_CBOR, "dag-json": DAG_JSON}.get(of, DAG_PB)
    assert len(data) <= MAX_BLOCK_BYTES
    store = EmbeddedStore(blocks, gateways, limits=DagLimits(blocks=300_000))
    parts = [_padded(codec, data, seed) for seed in range(3)]
    root, origin.blocks = pb(*parts)
    origin.cars = False
    async with loop_lag() as lag:
        with pytest.raises(PinFailed, match="more than 300000 links"):
            await pin(store, root)
    assert lag.worst < MOST_LAG


def _padded(codec: int, data: bytes, seed: int) -> Dag:
    """*data* made different by *seed*, and still a block of that codec."""
    if codec == DAG_PB:
        data += b"\x0a\x01" + bytes([seed])
    elif codec == DAG_JSON:
        data += b" " * seed
    else:
        data = b"\x82" + bytes([seed]) + data
    cid = block(codec, data)
    return cid, {cid: data}


async def test_nodes_inside_of_nodes_are_read_as_deep_as_they_go(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """Identity CIDs in identity CIDs, nearly to the last of their 128 bytes: what the innermost
    links to is kept."""
    leaf = raw(b"leaf")
    inner = Cid(DAG_PB, 0, next(iter(pb(leaf)[1].values())))
    depth = 0
    while True:
        node = b"\x12" + _sized(b"\x0a" + _sized(bytes(inner)))
        if len(node) > 116:  # as long as the miniature's own nodes can link to
            break
        inner, depth = Cid(DAG_PB, 0, node), depth + 1
    assert depth >= 7
    root, origin.blocks = pb((inner, {}), (inner, {}))
    origin.blocks |= leaf[1]
    other.blocks = origin.blocks
    await pin(store, root)
    assert [data for _, data in await served(store, root)] == [origin.blocks[root], b"leaf"]
    assert [data for _, data in await served(store, inner)] == [b"leaf"]


def _sized(value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([len(value)]) + value


def test_a_wide_dag_of_nothing_fits_into_memory() -> None:
    """Half a million links to blocks that nobody has: some 200 bytes each, and no more of
    them than all pins together have room for."""
    before = _megabytes()
    room = WantRoom(499_915)
    nodes = [_wide(seed) for seed in range(10)]
    root = pb(*nodes)
    with Wantlist(root[0], DagLimits(), room) as wantlist:
        for cid, some in (root, *nodes):
            wantlist.accept([(cid.multihash, some[cid])])
        assert not wantlist.is_complete
        with pytest.raises(Overloaded):
            Wantlist(root[0], DagLimits(), room).accept([(root[0].multihash, root[1][root[0]])])
        assert _megabytes() - before < 200
    Wantlist(root[0], DagLimits(), room).accept([(root[0].multihash, root[1][root[0]])])


def _wide(seed: int) -> Dag:
    head = b"\x12\x26\x0a\x24\x01\x55\x12\x20"
    data = b"".join(
        head + seed.to_bytes(4, "big") + each.to_bytes(28, "big") for each in range(49_990)
    )
    cid = block(DAG_PB, data)
    return cid, {cid: data}


def _megabytes() -> float:
    """The most memory that this process has had so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1024 if sys.platform == "linux" else 1024 * 1024)


async def test_what_a_block_links_to_goes_with_the_block(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """The links stored for a node are deleted with it, and stored again with it."""
    dag = pb(empty_links(1, 500))
    origin.blocks, other.blocks = dag[1], dag[1]
    for _ in range(2):
        await pin(store, dag[0])
        assert await number(blocks, "SELECT count(*) FROM nodes") == 1
        await store.unpin(dag[0])
        await collected(blocks)
        assert await number(blocks, "SELECT count(*) FROM nodes") == 0


@pytest.mark.parametrize("value", [b"\x01", b"\x18\x20", b"\x81\x01", b"\x43abc"])
async def test_values_that_are_no_links_are_read_once(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin, value: bytes
) -> None:
    """A block of numbers is slow to read, too, and leads nowhere."""
    data = b"\x9a" + (100_000).to_bytes(4, "big") + value * 100_000
    root = block(DAG_CBOR, data)
    origin.blocks = other.blocks = {root: data}
    await pin(store, root)
    assert await number(blocks, "SELECT count(*) FROM nodes") == 1
    assert [each for _, each in await served(store, root)] == [data]


async def test_a_block_that_goes_in_between_is_missing_and_nobody_else_suffers(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """Its row id may be another block's by then, which is neither taken for it nor deleted."""
    inner = pb(raw(b"leaf"))
    unrelated = raw(b"unrelated")
    await put(blocks, inner)
    root = pb(inner)
    begun, wantlist = await blocks.begin(root[0]), Wantlist(root[0], DagLimits())
    wantlist.accept([(root[0].multihash, root[1][root[0]])])
    await blocks.unpin(inner[0])
    await collected(blocks)
    await put(blocks, inner)
    found = await blocks.walk(lambda file: ingest.look_up(file, wantlist))
    found_block = [
        ingest.StoredBlock(bytes(inner[0]), 1)
    ]  # as one that was looked up before it went
    assert [cid for cid, _ in found.complete] == [bytes(inner[0])]
    await blocks.unpin(inner[0])
    await collected(blocks)
    await put(blocks, unrelated)  # takes the first free row
    fetched = ingest.PinInProgress(begun.id, begun.losses, DagLimits())
    took = await blocks.write(lambda file: ingest.store(file, fetched, [], found_block))
    assert took.gone == [bytes(inner[0])]
    step = await blocks.walk(lambda file: ingest.read(file, wantlist, found_block))
    assert (step.missing, step.corrupt, step.arrived) == ([bytes(inner[0])], [], [])
    assert await store.block(unrelated[0]) == b"unrelated"


async def test_a_whole_dag_below_another_is_not_walked_again(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """A root over a pinned DAG refers to all its blocks, and keeps them when the first pin goes."""
    dag = file(300, 100)
    root = pb(dag, raw(b"more"))
    origin.blocks, other.blocks = root[1], root[1]
    await pin(store, dag[0])
    origin.requests.clear()
    other.requests.clear()
    await pin(store, root[0])
    assert not any(str(cid) in path for cid in dag[1] for path in origin.requests + other.requests)
    totals = "SELECT blocks FROM pins ORDER BY id DESC LIMIT 1"
    assert await number(blocks, totals) == len(root[1])
    size = "SELECT size FROM pins ORDER BY id DESC LIMIT 1"
    assert await number(blocks, size) == sum(map(len, root[1].values()))
    await store.unpin(dag[0])
    await collected(blocks)
    assert await count(blocks) == len(root[1])
    for cid, data in root[1].items():
        assert await store.block(cid) == data
    await store.unpin(root[0])
    await collected(blocks)
    assert await count(blocks) == 0


async def test_limits_hold_for_what_was_pinned_before(
    blocks: Blockstore, gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    """Each part is within the limit, together they are not; and trying again changes nothing."""
    parts = [file(60, 100, seed=seed) for seed in range(3)]
    root = pb(*parts)
    origin.blocks, other.blocks = root[1], root[1]
    origin.cars = other.cars = False
    small = EmbeddedStore(blocks, gateways, limits=DagLimits(blocks=130))
    for cid, _ in parts:
        await pin(small, cid)
    for _ in range(3):
        with pytest.raises(PinFailed, match="more than 130 blocks"):
            await pin(small, root[0])
    sized = EmbeddedStore(blocks, gateways, limits=DagLimits(size=20_000))
    for _ in range(3):
        with pytest.raises(PinFailed, match="more than 20000 bytes"):
            await pin(sized, root[0])


async def test_overlaps_count_once(
    blocks: Blockstore, gateways: TrustlessGateways, origin: Origin, other: Origin
) -> None:
    """Two pinned trees that share nearly everything, below a third: it has each block once."""
    shared = file(60, 100)
    one, two = pb(shared, raw(b"1")), pb(shared, raw(b"2"))
    root = pb(one, two)
    origin.blocks, other.blocks = root[1], root[1]
    origin.cars = other.cars = False
    store = EmbeddedStore(blocks, gateways, limits=DagLimits(blocks=len(root[1]) + 4))
    for cid, _ in (one, two, root):
        await pin(store, cid)
    totals = "SELECT blocks FROM pins ORDER BY id DESC LIMIT 1"
    assert await number(blocks, totals) == len(root[1])


async def test_the_same_links_over_and_over_are_one(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Each level links to the next ten times, twenty levels deep: ten to the twentieth paths, and
    twenty blocks."""
    dag = raw(b"end")
    for _ in range(20):
        dag = cbor([link(dag)] * 10, dag)
    origin.blocks, other.blocks = dag[1], dag[1]
    await pin(store, dag[0])
    assert await count(blocks) == 21
    assert len(await served(store, dag[0])) == 21


def test_an_identity_link_may_be_spelt_in_json() -> None:
    """The text form of a CID is slow to read: each spelling is read once."""
    cid = Cid(DAG_PB, 0, b"")
    text = b'{"/":"b%s"}' % BASE32.encode(bytes(cid)).encode()
    data = b"[" + b",".join([text] * 50_000) + b"]"
    root = Cid(DAG_JSON, 0x12, sha256(data).digest())
    wantlist = Wantlist(root, DagLimits())
    wantlist.accept([(root.multihash, data)])
    assert wantlist.is_complete
