"""Unpinning: a block is deleted when no pin needs it any more, and not before."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.demo.publisher import directory
from content_gateway.errors import PinDeferred, PinFailed
from content_gateway.ipld.car import Section
from content_gateway.model.content_state import TrackerStatus
from tests.backends.backends import pin, status
from tests.backends.stores import collected, count, number, sections
from tests.backends.test_blockstore import put
from tests.fakes.origin import Origin
from tests.ipld.dags import Dag, file, pb, raw

FILES = {f"page{index}.html": f"<p>{index}".encode() for index in range(20)}


async def test_an_unpinned_dag_is_absent_at_once_and_gone_soon(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """Nothing of it stays: no block, no row."""
    dag = file(1200, 10)
    await put(blocks, dag)
    assert await status(store, dag[0]) is TrackerStatus.PINNED
    await store.unpin(dag[0])
    assert await status(store, dag[0]) is TrackerStatus.ABSENT
    await collected(blocks)
    assert await count(blocks) == 0
    assert await number(blocks, "SELECT count(*) FROM pins") == 0
    assert await number(blocks, "SELECT count(*) FROM refs") == 0
    await store.unpin(dag[0])  # and twice is fine


async def test_what_an_incomplete_pin_has_fetched_goes_with_it(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin
) -> None:
    """A pin that never became whole leaves nothing behind when it is released."""
    root, origin.blocks = directory(FILES)
    origin.hidden.add(raw(FILES["page9.html"])[0])
    with pytest.raises(PinFailed):
        await pin(store, root)
    assert await count(blocks) > 5
    await store.unpin(root)
    await collected(blocks)
    assert await count(blocks) == 0


async def test_half_an_unpin_is_finished_when_the_store_is_opened(tmp_path: Path) -> None:
    """A crash between two steps leaves a pin that is being unpinned; the next start goes on with
    it."""
    path = tmp_path / "blocks.sqlite"
    dag, other = file(300, 10), file(10, 10, seed=1)
    async with Blockstore(path) as blocks:
        await put(blocks, dag)
        await put(blocks, other)
        await blocks.write(
            lambda file: file.execute(
                "UPDATE pins SET unpinning = 1, complete = 0 WHERE cid = ?", (bytes(dag[0]),)
            )
        )
        half = "DELETE FROM refs WHERE pin = 1 AND block IN (SELECT block FROM refs LIMIT 100)"
        await blocks.write(lambda file: file.execute(half))
        orphans = "DELETE FROM blocks WHERE id NOT IN (SELECT block FROM refs)"
        await blocks.write(lambda file: file.execute(orphans))
    async with Blockstore(path) as blocks:
        await collected(blocks)
        assert await count(blocks) == len(other[1])
        assert await blocks.complete([other[0]]) == {other[0]}


async def test_a_pin_while_it_is_unpinned_keeps_what_is_left(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Pinned again at once, in whatever state it is: in the end all of it is here."""
    dag = file(1500, 10)
    _, origin.blocks = dag
    other.blocks = dag[1]
    await put(blocks, dag)
    for _ in range(3):
        await store.unpin(dag[0])
        await pin(store, dag[0])
        await collected(blocks)
        assert await status(store, dag[0]) is TrackerStatus.PINNED
        assert await count(blocks) == len(dag[1])


async def test_pins_and_unpins_of_overlapping_dags_never_lose_a_block(
    store: EmbeddedStore, blocks: Blockstore, origin: Origin, other: Origin
) -> None:
    """Many at once, in any order: what is called pinned is whole, and the rest is gone."""
    parts = [file(12, 30, seed=seed) for seed in range(6)]
    dags: list[Dag] = [pb(*(parts[(n + k) % 6] for k in range(3))) for n in range(6)]
    for dag in dags:
        origin.blocks |= dag[1]
    other.blocks = origin.blocks
    chance = random.Random(4)

    async def reconcile(dag: Dag) -> bool:
        wanted = False
        for _ in range(8):
            wanted = chance.random() < 0.6
            await (pin(store, dag[0]) if wanted else store.unpin(dag[0]))
        return wanted

    wanted = await asyncio.gather(*(reconcile(dag) for dag in dags))
    await collected(blocks)
    held: set[bytes] = set()
    for dag, is_wanted in zip(dags, wanted, strict=True):
        expected = TrackerStatus.PINNED if is_wanted else TrackerStatus.ABSENT
        assert await status(store, dag[0]) is expected
        if is_wanted:
            held |= {cid.multihash for cid in dag[1]}
            for cid, data in dag[1].items():
                assert await store.block(cid) == data
    assert await count(blocks) == len(held)


async def test_room_is_given_back_to_the_disk(
    tmp_path: Path, store: EmbeddedStore, blocks: Blockstore
) -> None:
    """The file shrinks after a large unpin, but for some free pages."""
    dag, small = file(60, 1_000_000), file(3, 1000, seed=1)
    await put(blocks, dag)
    await put(blocks, small)
    pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    assert await number(blocks, pages) > 60_000_000
    await store.unpin(dag[0])
    await collected(blocks)
    async with asyncio.timeout(30):
        while await number(blocks, pages) > 36_000_000:
            await asyncio.sleep(0.05)
    assert await count(blocks) == len(small[1])
    for cid, data in small[1].items():
        assert await store.block(cid) == data


async def test_a_retrieval_that_outlived_an_unpin_completes_nothing(blocks: Blockstore) -> None:
    """Its pin was released and begun again: blocks that it had counted may be gone."""
    dag = file(300, 10)
    parts = sections(dag)
    late, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
    await blocks.store_blocks(late, wantlist, parts[:200])
    await blocks.unpin(dag[0])
    await collected(blocks)
    await blocks.begin(dag[0])
    with pytest.raises(PinDeferred):
        await blocks.store_blocks(late, wantlist, parts[200:])
    with pytest.raises(PinDeferred):
        await blocks.finish(late)
    assert await blocks.complete([dag[0]]) == set()


async def test_bytes_that_were_verified_take_the_place_of_corrupt_ones(blocks: Blockstore) -> None:
    """A pin that brings a block in again mends what the disk has made of it."""
    dag = file(20, 10)
    await put(blocks, dag)

    def damage(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE blocks SET data = zeroblob(length(data))")

    await blocks.write(damage)
    other = pb(dag)
    await put(blocks, other)

    def kept(connection: sqlite3.Connection) -> set[bytes]:
        return {bytes(data) for (data,) in connection.execute("SELECT data FROM blocks")}

    assert await blocks.read(kept) == set(other[1].values())


async def test_an_import_that_fails_leaves_alone_what_others_completed(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """A file that changes while it is read takes back what came of it, unless the service has
    brought in all of it meanwhile: that pin is whole, and stays."""
    whole, part = file(30, 10), file(30, 10, seed=1)

    async def changed(dag: Dag, *, is_completed: bool) -> AsyncIterator[list[Section]]:
        yield sections(dag)[:5]
        if is_completed:
            await put(blocks, dag)
        raise ValueError("the file has changed")

    with pytest.raises(PinFailed):
        await store.take(whole[0], partial(changed, whole, is_completed=True))
    with pytest.raises(PinFailed):
        await store.take(part[0], partial(changed, part, is_completed=False))
    await collected(blocks)
    assert await status(store, whole[0]) is TrackerStatus.PINNED
    assert await count(blocks) == len(whole[1])
    assert await number(blocks, "SELECT count(*) FROM pins") == 1


async def test_an_import_that_fails_leaves_alone_what_was_begun_anew(
    store: EmbeddedStore, blocks: Blockstore
) -> None:
    """Unpinned while the file was read, and pinned again: that is another's by now."""
    dag = file(30, 10)

    async def changed() -> AsyncIterator[list[Section]]:
        yield sections(dag)[:5]
        await store.unpin(dag[0])
        begun, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
        await blocks.store_blocks(begun, wantlist, sections(dag)[:9])
        raise ValueError("the file has changed")

    with pytest.raises(PinFailed):
        await store.take(dag[0], changed)
    await collected(blocks)
    assert await count(blocks) == 9
