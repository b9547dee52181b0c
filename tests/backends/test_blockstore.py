"""The block store's file: what was committed is there next time, and others may share it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.database import BLOCKS
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.codecs.multiformats import HASHES, digest_of
from content_gateway.errors import StorageUnavailable
from content_gateway.ipld.block import is_block_of
from content_gateway.model.cid import RAW, Cid
from content_gateway.net.http_client import HttpClient
from content_gateway.sqlite.database import Job
from tests.backends.stores import count, number, sections
from tests.ipld.dags import Dag, file, raw
from tests.ledgers import cid

T = TypeVar("T")


async def put(blocks: Blockstore, dag: Dag) -> None:
    begun, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
    await blocks.store_blocks(begun, wantlist, sections(dag))
    await blocks.finish(begun)


@pytest.fixture
def reading(blocks: Blockstore, outbound: HttpClient) -> EmbeddedStore:
    return EmbeddedStore(blocks, TrustlessGateways(outbound, []))


async def test_what_was_kept_is_there_next_time(tmp_path: Path, outbound: HttpClient) -> None:
    """Blocks, pins and their sizes, from a store opened again on the same file."""
    dag = file(20, 100)
    async with Blockstore(tmp_path / "new" / "blocks.sqlite") as blocks:
        await put(blocks, dag)
    async with Blockstore(tmp_path / "new" / "blocks.sqlite") as blocks:
        assert await blocks.complete([dag[0], raw(b"other")[0]]) == {dag[0]}
        store = EmbeddedStore(blocks, TrustlessGateways(outbound, []))
        for cid, data in dag[1].items():
            assert await store.block(cid) == data
        size = sum(map(len, dag[1].values()))
        assert await number(blocks, "SELECT size FROM pins") == size
        assert await number(blocks, "SELECT blocks FROM pins") == len(dag[1])


@pytest.mark.parametrize("code", sorted(HASHES))
async def test_every_hash_we_can_compute_is_kept(
    blocks: Blockstore, reading: EmbeddedStore, code: int
) -> None:
    """Short and long digests; blake3 is left out, as it cannot be computed here."""
    digest = digest_of(code, b"content")
    if digest is None:
        assert HASHES[code][0] == "blake3"
        return
    cid = Cid(RAW, code, digest)
    await put(blocks, (cid, {cid: b"content"}))
    assert await reading.block(cid) == b"content"
    assert not is_block_of(cid, b"contend")


async def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    """Each sees what the other has committed; neither overwrites it."""
    path = tmp_path / "blocks.sqlite"
    async with Blockstore(path) as one, Blockstore(path) as two:
        dags = [file(5, 50, seed=seed) for seed in range(20)]
        await asyncio.gather(*(put((one, two)[n % 2], dag) for n, dag in enumerate(dags)))
        for blocks in (one, two):
            assert await blocks.complete([dag[0] for dag in dags]) == {dag[0] for dag in dags}
            assert await count(blocks) == sum(len(dag[1]) for dag in dags)


async def test_the_log_beside_the_file_is_bounded(tmp_path: Path, blocks: Blockstore) -> None:
    """However much is written, the WAL is checkpointed in time."""
    wal = tmp_path / "blocks.sqlite-wal"
    most = 0
    for seed in range(4):
        await put(blocks, file(50, 1_000_000, seed=seed))
        most = max(most, wal.stat().st_size)
    assert most < BLOCKS.file.wal_bytes + 60_000_000
    assert (tmp_path / "blocks.sqlite").stat().st_size > 50_000_000


async def test_a_file_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    """What an unfinished pin has brought in is counted, and it goes on from there."""
    path, dag = tmp_path / "blocks.sqlite", file(20, 100)
    first = sections(dag)[:15]
    async with Blockstore(path) as blocks:
        begun = await blocks.begin(dag[0])
        await blocks.store_blocks(begun, Wantlist(dag[0], DagLimits()), first)
    with closing(sqlite3.connect(path)) as earlier, earlier:
        for statement in (
            "DROP INDEX pins_unpinning",
            "ALTER TABLE pins RENAME COLUMN unpinning TO leaving",
            "CREATE INDEX pins_leaving ON pins (id) WHERE leaving",
            "UPDATE pins SET blocks = 0, size = 0",
            "DROP TRIGGER nodes_go",
            "DROP TABLE nodes",
            "PRAGMA user_version = 1",
        ):
            earlier.execute(statement)
    async with Blockstore(path) as blocks:
        begun = await blocks.begin(dag[0])
        assert (begun.blocks, begun.size) == (15, sum(len(data) for _, data in first))
        await put(blocks, dag)
        assert await number(blocks, "SELECT blocks FROM pins") == len(dag[1])


class Watched(Blockstore):
    """Remembers which writes were to be durable."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[bool] = []

    async def write(self, job: Job[T], *, durable: bool = False, requestor: str = "") -> T:
        self.asked.append(durable)
        return await super().write(job, durable=durable, requestor=requestor)


async def test_what_is_promised_waits_for_the_disk_and_blocks_do_not(tmp_path: Path) -> None:
    """Blocks are not synced one by one. That a pin is complete or released is synced, with all
    before it, before it is answered."""

    def level(file: sqlite3.Connection) -> int:
        return int(file.execute("PRAGMA synchronous").fetchone()[0])

    async with Watched(tmp_path / "blocks.sqlite") as blocks:
        assert [await blocks.write(level), await blocks.write(level, durable=True)] == [1, 2]
        blocks.asked.clear()
        dag = file(5, 10)
        await put(blocks, dag)
        assert blocks.asked == [False, False, True]
        blocks.asked.clear()
        await blocks.unpin(dag[0])
        assert blocks.asked[0]


@pytest.mark.parametrize("name", ["blocks.sqlite", "blocks.sqlite-wal"])
async def test_a_store_that_is_taken_away_is_unavailable_until_it_is_back(
    tmp_path: Path, name: str
) -> None:
    """No call answers from a file that is no longer in its place; no restart is needed."""
    root = cid(1)
    async with Blockstore(tmp_path / "blocks.sqlite") as blocks:
        await blocks.begin(root)
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(StorageUnavailable):
            await blocks.unpin(root)
        with pytest.raises(StorageUnavailable):
            await blocks.complete([root])
        (tmp_path / "away").rename(tmp_path / name)
        assert await blocks.complete([root]) == set()
        await blocks.unpin(root)
