"""Short calls that the tests of the embedded store share."""

import asyncio

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.ipld.car import Section
from content_gateway.model.cid import Cid
from tests.ipld.dags import Dag, in_order


def sections(dag: Dag) -> list[Section]:
    """The blocks of *dag* as a CAR has them."""
    return [(cid.multihash, data) for cid, data in in_order(dag)]


async def number(blocks: Blockstore, question: str) -> int:
    """The number that is the answer to an SQL *question*."""
    return int(await blocks.read(lambda file: file.execute(question).fetchone()[0]))


async def count(blocks: Blockstore) -> int:
    """How many blocks there are; none of them is garbage, but for pins that are being unpinned."""
    return await number(blocks, "SELECT count(*) FROM blocks")


async def collected(blocks: Blockstore) -> None:
    """Return once everything that was unpinned is gone."""
    async with asyncio.timeout(60):
        while await number(blocks, "SELECT count(*) FROM pins WHERE unpinning"):
            await asyncio.sleep(0.01)
    garbage = "SELECT count(*) FROM blocks WHERE id NOT IN (SELECT block FROM refs)"
    assert await number(blocks, garbage) == 0
    dangling = "SELECT count(*) FROM refs WHERE block NOT IN (SELECT id FROM blocks)"
    assert await number(blocks, dangling) == 0
    assert (
        await number(blocks, "SELECT count(*) FROM refs WHERE pin NOT IN (SELECT id FROM pins)")
        == 0
    )


async def corrupt(blocks: Blockstore, cid: Cid, data: bytes) -> None:
    """Make the stored bytes of the block *cid* be *data*."""
    await blocks.write(
        lambda file: file.execute(
            "UPDATE blocks SET data = ? WHERE multihash = ?", (data, cid.multihash)
        )
    )
