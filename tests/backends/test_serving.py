"""Serving stored blocks: verified again, in the order in which a client can check them."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.codecs.multiformats import BASE58BTC, framed
from content_gateway.demo.publisher import directory
from content_gateway.errors import NotFound
from content_gateway.ipld.car import CarReader, Section, header
from content_gateway.ipld.selection import WHOLE, Selection
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.content_state import TrackerStatus
from content_gateway.unixfs.reader import UnixFs
from tests.backends.backends import status
from tests.backends.stores import corrupt, count, sections
from tests.backends.test_blockstore import put
from tests.cases import case
from tests.chance import SEED
from tests.ipld.dags import Dag, block, cbor, file, in_order, link, pb, raw
from tests.unixfs import made
from tests.unixfs.blocks import Blocks, read

LEAF = raw(b"leaf")


async def served(store: EmbeddedStore, cid: Cid, selection: Selection = WHOLE) -> list[Section]:
    reader, sections = CarReader(), []
    async for piece in store.car(cid, selection):
        sections += reader.feed(piece)
    reader.finish()
    return sections


@pytest.mark.parametrize(
    "dag",
    [
        LEAF,
        file(400, 3000),
        directory({"a": b"same", "b": b"same", "c": b"other"}),
        pb(pb(LEAF), pb(LEAF), LEAF),
        cbor([link(LEAF)], LEAF),
    ],
    ids=["leaf", "file", "same files", "shared", "dag-cbor"],
)
async def test_a_car_has_every_block_once_parents_first(
    store: EmbeddedStore, blocks: Blockstore, dag: Dag
) -> None:
    """Depth first, without duplicates, behind a header that names the root."""
    await put(blocks, dag)
    assert await served(store, dag[0]) == sections(dag)
    pieces = [piece async for piece in store.car(dag[0])]
    assert b"".join(pieces).startswith(header(dag[0]))
    assert max(map(len, pieces)) < 3 * 1024 * 1024


async def test_identity_links_are_followed_and_not_sent(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """A block inside its CID needs no section; what it links to has one."""
    holder = Cid(DAG_PB, 0, next(iter(pb(LEAF)[1].values())))
    inner = pb((holder, {}))
    await put(blocks, (inner[0], inner[1] | LEAF[1]))
    assert [data for _, data in await served(store, inner[0])] == [inner[1][inner[0]], b"leaf"]
    assert await served(store, Cid(RAW, 0, b"tiny")) == []
    assert await store.block(Cid(RAW, 0, b"tiny")) == b"tiny"


async def test_the_scope_block_is_the_root_alone(store: EmbeddedStore, blocks: Blockstore) -> None:
    dag = file(10, 10)
    await put(blocks, dag)
    assert await served(store, dag[0], Selection("block")) == [(dag[0].multihash, dag[1][dag[0]])]


async def test_the_scope_entity_is_the_thing_itself(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """A file is all its chunks; a directory its names, over all shards, and not the files."""
    content = made.file(b"chunk 1chunk 2", chunk=7)
    plain = made.directory({"name": content})
    shard = made.node(made.shard_data(256), [(b"0Fname", content)])
    sharded = made.node(made.shard_data(256), [(b"A1", shard), (b"B2other", content)])
    for dag in (content, plain, sharded, cbor([link(LEAF)], LEAF), LEAF):
        await put(blocks, dag)
    assert len(await served(store, content[0], Selection("entity"))) == 3
    assert len(await served(store, plain[0], Selection("entity"))) == 1
    assert [part for part, _ in await served(store, sharded[0], Selection("entity"))] == [
        sharded[0].multihash,
        shard[0].multihash,
    ]
    assert len(await served(store, cbor([link(LEAF)], LEAF)[0], Selection("entity"))) == 1
    assert len(await served(store, LEAF[0], Selection("entity"))) == 1


async def test_blocks_on_the_way_come_first(store: EmbeddedStore, blocks: Blockstore) -> None:
    """Each alone, whatever else they link to; the header names where the way ends."""
    end = pb(LEAF)
    dag = pb(pb(raw(b"beside")), pb(end, raw(b"beside")))
    await put(blocks, dag)
    below = next(cid for cid, data in dag[1].items() if bytes(end[0]) in data)
    selection = Selection(way=(dag[0], below))
    assert [data for _, data in await served(store, end[0], selection)] == [
        dag[1][cid] for cid in (dag[0], below, end[0], LEAF[0])
    ]


async def test_blocks_are_repeated_where_that_is_wanted(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """As often as they are linked to, also from one block; those inside of CIDs never are."""
    tiny = Cid(RAW, 0, b"tiny")
    dag = pb(pb(LEAF, LEAF), (tiny, {}), pb(LEAF, LEAF), LEAF)
    await put(blocks, (dag[0], {cid: data for cid, data in dag[1].items() if cid != tiny}))
    inner = pb(LEAF, LEAF)
    for scope in ("all", "entity"):
        found = await served(store, dag[0], Selection(scope, repeats=True))
        each = [inner[1][inner[0]], b"leaf", b"leaf"]
        whole = [dag[1][dag[0]], *each, *each, b"leaf"]
        # Of a directory the entity is its list of names.
        assert [data for _, data in found] == (whole if scope == "all" else whole[:1])


async def test_blocks_are_named_as_links_spell_them(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """Readers look for a block under the CID of its link; of version 0 in much that is old."""
    leaf = made.node(made.unixfs(made.FILE, data=b"old", size=3), [])
    old = leaf[0].multihash
    node = b"\x12" + framed(b"\x0a" + framed(old) + b"\x12\x00\x18\x05")
    node += b"\x0a" + framed(made.unixfs(made.FILE, size=3, parts=[3]))
    root = block(DAG_PB, node)
    await put(blocks, (root, {root: node, **leaf[1]}))
    for selection in (WHOLE, Selection("entity"), Selection("entity", span=(1, 2))):
        car = b"".join([piece async for piece in store.car(root, selection)])
        assert car.endswith(framed(bytes(root), node) + framed(old, leaf[1][leaf[0]]))
    v0 = Cid.parse(BASE58BTC.encode(root.multihash))
    car = b"".join([piece async for piece in store.car(v0)])
    assert car.startswith(header(v0))
    assert framed(root.multihash, node) in car


async def test_a_span_brings_what_its_bytes_need(store: EmbeddedStore, blocks: Blockstore) -> None:
    """Of files that repeat themselves too: enough to read it offline, depth first, and no more."""
    random = Random(SEED)
    for _ in range(60):
        chunk, width = random.choice([1, 10, 100]), random.choice([2, 3, 10])
        alphabet = [random.randbytes(chunk) for _ in range(random.choice([1, 2, 1000]))]
        content = b"".join(random.choice(alphabet) for _ in range(random.randint(1, 80)))
        inline = random.randbytes(random.choice([0, 0, 5]))
        dag = made.file(content, chunk=chunk, width=width, inline=inline)
        whole = inline + content
        await put(blocks, dag)
        start = random.randint(0, len(whole) - 1)
        stop = random.randint(start, len(whole))
        with case(chunk, width, len(inline), len(content), start, stop):
            once = await served(store, dag[0], Selection("entity", span=(start, stop)))
            held = {cid: dag[1][cid] for cid in dag[1] if cid.multihash in dict(once)}
            assert len(once) == len(held)
            offline = Blocks(held)
            files = UnixFs(offline)
            entry = await files.find(dag[0], [], "me")
            assert await read(files, entry, start, stop) == whole[start:stop]
            assert set(offline.asked) == set(held)
            often = await served(store, dag[0], Selection("entity", (start, stop), repeats=True))
            assert list(dict(often)) == [multihash for multihash, _ in once]
            assert len(often) >= len(once)


async def test_a_span_of_what_is_no_file_breaks_off(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """Its root comes, and the error says why no more does."""
    dag = pb(LEAF, data=b"\x08\x02")
    await put(blocks, dag)
    with pytest.raises(NotFound, match="1 parts, and the sizes of 0"):
        await served(store, dag[0], Selection("entity", span=(0, 1)))


async def test_what_is_not_here_is_not_found(store: EmbeddedStore, blocks: Blockstore) -> None:
    """Before the first byte for a root; in the middle of the CAR for a block below it."""
    assert await store.block(LEAF[0]) is None
    with pytest.raises(NotFound, match=str(LEAF[0])):
        await anext(store.car(LEAF[0]))
    dag = file(300, 3000)
    await put(blocks, dag)
    last = [cid for cid, _ in in_order(dag)][-1]
    await blocks.write(
        lambda file: file.execute("DELETE FROM blocks WHERE multihash = ?", (last.multihash,))
    )
    pieces = store.car(dag[0])
    assert await anext(pieces)
    with pytest.raises(NotFound, match=str(last)):
        await _drained(pieces)


async def _drained(pieces: AsyncIterator[bytes]) -> None:
    async for _ in pieces:
        pass


@pytest.mark.parametrize("damaged", [b"", b"lea", b"leaf\0", b"Leaf"])
@pytest.mark.parametrize("as_car", [False, True], ids=["block", "car"])
async def test_corruption_is_not_served_but_mended(
    store: EmbeddedStore, blocks: Blockstore, damaged: bytes, as_car: bool
) -> None:
    """A corrupt block is dropped, and its pins are asked for once more."""
    dag = pb(LEAF)
    await put(blocks, dag)
    await corrupt(blocks, LEAF[0], damaged)
    if as_car:
        with pytest.raises(NotFound):
            await served(store, dag[0])
    else:
        assert await store.block(LEAF[0]) is None
    assert await status(store, dag[0]) is TrackerStatus.ABSENT
    assert await count(blocks) == 1


async def test_many_readers_at_once(store: EmbeddedStore, blocks: Blockstore) -> None:
    dag = file(300, 1000)
    await put(blocks, dag)
    cars = await asyncio.gather(*(served(store, dag[0]) for _ in range(8)))
    assert {len(car) for car in cars} == {len(dag[1])}


async def test_one_store_feeds_another(store: EmbeddedStore, blocks: Blockstore) -> None:
    dag = file(200, 500)
    await put(blocks, dag)
    wantlist = Wantlist(dag[0], DagLimits())
    wantlist.accept(await served(store, dag[0]))
    assert wantlist.is_complete
