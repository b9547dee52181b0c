"""kill -9 at any moment and at every named point: what was acknowledged stands, nothing is half.

KILL_ROUNDS says how often (200 by default): seven of ten at the points of failpoints.py, the others
at random in the real command; half of each with the embedded store, half with a cluster that loses
its own memory meanwhile."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import aiohttp
import pytest

from tests.chance import SEED
from tests.faults.backends import World, batching, embedded
from tests.faults.failpoints import FAILPOINTS
from tests.faults.ground import SqliteGround
from tests.faults.journal import Journal, block
from tests.faults.lives import CLIENTS, come_to_rest, die_at_points, die_at_random
from tests.process import running

pytestmark = pytest.mark.deep

ROUNDS = int(os.environ.get("KILL_ROUNDS", "200"))
AT_POINTS = ROUNDS * 7 // 20  # with each backend
AT_RANDOM = ROUNDS * 3 // 20
Opened = Callable[[], AbstractAsyncContextManager[World]]


def ground_in(folder: Path) -> SqliteGround:
    folder.mkdir()
    return SqliteGround(folder)


async def at_points(folder: Path, opened: Opened, seed: int) -> None:
    """Many lives that end at named points, with one ledger and one backend."""
    ground, journal = ground_in(folder), Journal(seed)
    async with opened() as world:
        missed = await die_at_points(ground, world, journal, AT_POINTS, seed=seed)
        print(f"{AT_POINTS} lives, {journal.acknowledged} acknowledged, missed: {missed}")
        assert missed.total() < AT_POINTS / 2  # a busy machine needs longer than LIVES for some
        await come_to_rest(ground, world, journal)


@pytest.mark.timeout(600)
async def test_a_process_that_dies_at_any_point_breaks_no_promise(tmp_path: Path) -> None:
    """Before and after every call of every port: acknowledged pins are kept, removed ones stay
    removed, no row is half, and in the end the backend has what is held and nothing else."""
    await asyncio.gather(
        at_points(tmp_path / "embedded", embedded, 0),
        at_points(tmp_path / "batching", batching, len(FAILPOINTS) // 2),
    )


async def at_random(folder: Path, opened: Opened, seed: int) -> None:
    """Many lives of the real command that end in the middle of a stream of requests."""
    ground, journal = ground_in(folder), Journal(seed)
    async with opened() as world:
        await die_at_random(ground, world, journal, AT_RANDOM)
        print(f"{AT_RANDOM} lives ended at random, {journal.acknowledged} acknowledged")
        assert journal.acknowledged > AT_RANDOM * CLIENTS
        await come_to_rest(ground, world, journal)


@pytest.mark.timeout(600)
async def test_a_service_that_is_killed_at_random_breaks_no_promise(tmp_path: Path) -> None:
    """The real command, with both backends, again and again."""
    await asyncio.gather(
        at_random(tmp_path / "embedded", embedded, SEED + 3),
        at_random(tmp_path / "batching", batching, SEED + 4),
    )


async def test_a_stop_cuts_off_no_request(tmp_path: Path) -> None:
    """SIGTERM during a stream of POSTs: every request that was begun is answered; exit status 0."""
    data = tmp_path / "data"
    answered: list[int] = []
    stopping = asyncio.Event()

    async def post(url: str, client: int) -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(
            connector=connector, headers={"x-api-key": "me"}
        ) as session:
            for number in range(10_000):
                cid, _ = block(client * 10_000 + number)
                try:
                    async with session.post(f"{url}/ipfs/pin/add/{cid}") as response:
                        await response.read()
                        answered.append(response.status)
                except aiohttp.ClientConnectorError:
                    assert stopping.is_set()
                    return

    async with running("dev", data) as service:
        clients = [asyncio.create_task(post(service.url, client)) for client in range(8)]
        await asyncio.sleep(0.5)
        stopping.set()
        assert await service.stop() == 0
        results = await asyncio.gather(*clients, return_exceptions=True)
    assert [result for result in results if result is not None] == []
    assert set(answered) == {200}
    with closing(sqlite3.connect(data / "ledger.sqlite")) as ledger:
        (kept,) = ledger.execute("SELECT count(*) FROM pins").fetchone()
    assert kept >= len(answered)
