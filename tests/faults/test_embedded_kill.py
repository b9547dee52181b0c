"""The embedded store, killed -9 while it brings in 10,000 blocks: it goes on where it was.

The store runs in a process of its own (this file as a program); the gateway is in the test's."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.verify import CorruptBlock, verify
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.net.http_client import HttpClient
from content_gateway.telemetry.logs import configure
from tests.backends.stores import collected, count, number
from tests.chance import SEED
from tests.fakes.origin import Origin
from tests.ipld.dags import file

pytestmark = pytest.mark.deep

LEAVES, SIZE = 10_000, 10_000


async def _pin(url: str, root: str, path: str) -> None:
    """The child: pin *root*, and say so once it is durable."""
    async with HttpClient() as outbound, Blockstore(Path(path)) as blocks:
        store = EmbeddedStore(blocks, TrustlessGateways(outbound, [url]))
        await store.pin(Cid.parse(root), BackendStatus(TrackerStatus.ABSENT), lambda _, __: None)
        print("pinned", flush=True)


async def start(origin: Origin, root: Cid, path: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.test_embedded_kill"),
        *(origin.url, str(root), str(path)),
        stdout=asyncio.subprocess.PIPE,
    )


def last_request(origin: Origin) -> int:
    """Blocks that have left the gateway."""
    return origin.car_blocks + origin.asked_for_blocks()


def unexpected(corrupt: CorruptBlock) -> None:
    raise AssertionError(corrupt)


async def test_a_large_dag_survives_two_kills(tmp_path: Path, origin: Origin) -> None:
    """100 MB, killed after a third and after two: complete and verified in the end, and what had
    come was not fetched again."""
    path = tmp_path / "blocks.sqlite"
    root, origin.blocks = file(LEAVES, SIZE)
    kept = 0
    for part in (1, 2):
        child = await start(origin, root, path)
        while last_request(origin) < part * LEAVES // 3 + kept // 10:
            await asyncio.sleep(0.002)
        child.kill()
        await child.wait()
        async with Blockstore(path) as blocks:
            assert await blocks.complete([root]) == set()
            before, kept = kept, await count(blocks)
            assert before < kept < len(origin.blocks)
            assert await verify(blocks, lambda _, __: None, unexpected) == 0
    child = await start(origin, root, path)
    said, _ = await child.communicate()
    assert said == b"pinned\n"
    assert last_request(origin) < 1.5 * len(origin.blocks)
    async with Blockstore(path) as blocks, HttpClient() as outbound:
        assert await blocks.complete([root]) == {root}
        assert await count(blocks) == len(origin.blocks)
        assert await verify(blocks, lambda _, __: None, unexpected) == 0
        store = EmbeddedStore(blocks, TrustlessGateways(outbound, []))
        for cid, data in random.Random(SEED).sample(sorted(origin.blocks.items(), key=repr), 50):
            assert await store.block(cid) == data


@pytest.mark.parametrize("seed", range(4))
async def test_a_kill_at_any_moment_leaves_no_half_row(
    tmp_path: Path, origin: Origin, seed: int
) -> None:
    """Whenever it comes: every block is right and has its pin; the next try completes it."""
    path = tmp_path / "blocks.sqlite"
    root, origin.blocks = file(500, 5000, seed=SEED + seed)
    chance = random.Random(SEED + seed)
    origin.cars = seed % 2 == 0
    moment = chance.randrange(1, len(origin.blocks))
    child = await start(origin, root, path)
    while last_request(origin) < moment and child.returncode is None:
        await asyncio.sleep(0.001)
    await asyncio.sleep(chance.random() * 0.05)
    if child.returncode is None:
        child.kill()
    await child.wait()
    async with Blockstore(path) as blocks:
        assert await verify(blocks, lambda _, __: None, unexpected) == 0
        await collected(blocks)  # nothing without a pin, and no word of what is not there
        refs = await number(blocks, "SELECT count(*) FROM refs")
        assert refs == await count(blocks)
        if await blocks.complete([root]):
            assert refs == len(origin.blocks)
    child = await start(origin, root, path)
    assert (await child.communicate())[0] == b"pinned\n"
    async with Blockstore(path) as blocks:
        assert await blocks.complete([root]) == {root}
        assert await count(blocks) == len(origin.blocks)


if __name__ == "__main__":
    configure("info", "text")  # to standard error: what the service logs is not what is asked for
    asyncio.run(_pin(*sys.argv[1:]))
