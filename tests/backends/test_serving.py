"""Serving stored blocks: verified again, in the order in which a client can check them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.demo.publisher import directory
from content_gateway.errors import NotFound
from content_gateway.ipld.car import CarReader, Section, header
from content_gateway.ipld.selection import Scope, Selection
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import status
from tests.backends.stores import corrupt, count, sections
from tests.backends.test_blockstore import put
from tests.ipld.dags import Dag, block, cbor, file, in_order, link, pb, raw

LEAF = raw(b"leaf")


async def served(store: EmbeddedStore, cid: Cid, scope: Scope = "all") -> list[Section]:
    reader, sections = CarReader(), []
    async for piece in store.car(cid, Selection(scope)):
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
    assert await served(store, dag[0], "block") == [(dag[0].multihash, dag[1][dag[0]])]


def unixfs(kind: int, *parts: tuple[bytes, Dag]) -> Dag:
    """A UnixFS node of a kind with named links."""
    node, everything = b"", dict[Cid, bytes]()
    for name, (cid, blocks) in parts:
        inner = (
            b"\x0a" + bytes([len(bytes(cid))]) + bytes(cid) + b"\x12" + bytes([len(name)]) + name
        )
        node += b"\x12" + bytes([len(inner)]) + inner
        everything |= blocks
    node += b"\x0a\x02\x08" + bytes([kind])
    cid = block(DAG_PB, node)
    return cid, {cid: node} | everything


async def test_the_scope_entity_is_the_thing_itself(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """A file is all its chunks; a directory its names, over all shards, and not the files."""
    content = unixfs(2, (b"", raw(b"chunk 1")), (b"", raw(b"chunk 2")))
    plain = unixfs(1, (b"name", content))
    shard = unixfs(5, (b"0Fname", content))
    sharded = unixfs(5, (b"A1", shard), (b"B2other", content))
    for dag in (content, plain, sharded, cbor([link(LEAF)], LEAF), LEAF):
        await put(blocks, dag)
    assert len(await served(store, content[0], "entity")) == 3
    assert len(await served(store, plain[0], "entity")) == 1
    assert [part for part, _ in await served(store, sharded[0], "entity")] == [
        sharded[0].multihash,
        shard[0].multihash,
    ]
    assert len(await served(store, cbor([link(LEAF)], LEAF)[0], "entity")) == 1
    assert len(await served(store, LEAF[0], "entity")) == 1


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
