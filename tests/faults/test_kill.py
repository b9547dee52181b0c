"""kill -9 at any moment and at every named point: what was acknowledged stands, nothing is half.

KILL_ROUNDS says how often (200 by default): seven of ten at the points of failpoints.py, the others
at random in the real command; half of each with the embedded store, half with a cluster that loses
its own memory meanwhile."""

import asyncio
import os
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from content_gateway.api_keys import OpenKeys
from tests.chance import SEED
from tests.faults.backends import World, batching, embedded
from tests.faults.failpoints import FAILPOINTS, RESYNC_POINTS
from tests.faults.journal import Journal, block, let_leases_run_out, unsettled
from tests.process import QUIET, running
from tests.waiting import until

pytestmark = pytest.mark.deep

ROUNDS = int(os.environ.get("KILL_ROUNDS", "200"))
AT_POINTS = ROUNDS * 7 // 20  # with each backend
AT_RANDOM = ROUNDS * 3 // 20
CLIENTS = 8
LIVES = 3.0  # seconds that a service has to reach its point
Opened = Callable[[], AbstractAsyncContextManager[World]]


async def live(data: Path, world: World, journal: Journal, point: str, passages: int) -> bool:
    """One life of the service of failpoints.py, with requests; whether it died at its point."""
    environment = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    environment |= QUIET | world.settings | {"CONTENT_GATEWAY_DATA_DIR": str(data)}
    program = (sys.executable, "-m", "tests.faults.failpoints", point, str(passages))
    with (data.parent / f"{data.name}.log").open("a") as log:
        child = await asyncio.create_subprocess_exec(
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment,
        )
    try:
        async with asyncio.timeout(60):
            await talk(child, journal, LIVES)
    finally:
        died = child.returncode is not None
        if not died:
            child.kill()
        await child.wait()
    assert child.returncode == -9
    return died


async def talk(child: asyncio.subprocess.Process, journal: Journal, seconds: float) -> None:
    """Send requests, some at a time, until the child is dead or so many seconds have passed."""
    assert child.stdin is not None
    assert child.stdout is not None
    ends_at: float | None = None
    loop = asyncio.get_running_loop()
    try:
        for _ in range(CLIENTS):
            child.stdin.write(f"{journal.next_request()}\n".encode())
        while line := await child.stdout.readline():
            if not line.endswith(b"\n"):
                break
            journal.answered(line.decode())
            ends_at = ends_at or loop.time() + seconds
            if loop.time() > ends_at:
                return
            await asyncio.sleep(0.002)
            child.stdin.write(f"{journal.next_request()}\n".encode())
    except (ConnectionResetError, BrokenPipeError):
        pass
    await child.wait()


def has_fewer(ledger: Path, left: int) -> bool:
    """Whether less is unsettled than the *left* of before, by one in a hundred at least."""
    return unsettled(ledger) <= left * 0.99


async def come_to_rest(data: Path, world: World, journal: Journal) -> None:
    """A service that nobody kills brings everything about, and then the backend has just that."""

    for _ in range(2):
        # A cluster may have lost what was final; the resync of the next start finds out.
        async with running("dev", data, world.settings) as service:
            # Leases of the dead run out first.
            # However many there are by then, as long as they become fewer.
            left = unsettled(data / "ledger.sqlite")
            while left:
                await until(partial(has_fewer, data / "ledger.sqlite", left), seconds=60)
                left = unsettled(data / "ledger.sqlite")
            assert await service.stop() == 0
    journal.check(data / "ledger.sqlite")
    assert await world.kept(data) == journal.held()


async def die_at_points(data: Path, opened: Opened, seed: int) -> None:
    """Many lives that end at named points, with one ledger and one backend."""
    journal, missed = Journal(seed), Counter[str]()
    chance = random.Random(seed)
    async with opened() as world:
        for cid, content in journal.contents(ahead=300 * AT_POINTS):
            world.provide(cid, content)
        for number in range(AT_POINTS):
            point = FAILPOINTS[(number + seed) % len(FAILPOINTS)]
            passages = 1 if point in RESYNC_POINTS else chance.choice([1, 1, 2, 5])
            if not await live(data, world, journal, point, passages):
                missed[point] += 1
            journal.check(data / "ledger.sqlite")
            let_leases_run_out(data / "ledger.sqlite")
        print(f"{AT_POINTS} lives, {journal.acknowledged} acknowledged, missed: {missed}")
        assert missed.total() < AT_POINTS / 2  # a busy machine needs longer than LIVES for some
        await come_to_rest(data, world, journal)


@pytest.mark.timeout(600)
async def test_a_process_that_dies_at_any_point_breaks_no_promise(tmp_path: Path) -> None:
    """Before and after every call of every port: acknowledged pins are kept, removed ones stay
    removed, no row is half, and in the end the backend has what is held and nothing else."""
    await asyncio.gather(
        die_at_points(tmp_path / "embedded", embedded, 0),
        die_at_points(tmp_path / "batching", batching, len(FAILPOINTS) // 2),
    )


async def stream(url: str, journal: Journal) -> None:
    """Send one request after the other over HTTP until the service is gone."""
    async with aiohttp.ClientSession() as session:
        while True:
            request = journal.next_request()
            what, requestor, cid = request.split()
            method, path = ("POST", "add") if what == "add" else ("DELETE", "rm")
            address, headers = f"{url}/ipfs/pin/{path}/{cid}", {"x-api-key": requestor}
            try:
                async with session.request(method, address, headers=headers) as response:
                    await response.read()
            except aiohttp.ClientError:
                return
            assert response.status == 200
            journal.answered(request)


async def die_at_random(data: Path, opened: Opened, seed: int) -> None:
    """Many lives of the real command that end in the middle of a stream of requests."""
    journal = Journal(seed, lambda key: OpenKeys().remembered(key).id)
    async with opened() as world:
        for cid, content in journal.contents(ahead=1000 * AT_RANDOM):
            world.provide(cid, content)
        for _ in range(AT_RANDOM):
            async with running("dev", data, world.settings) as service:
                clients = [
                    asyncio.create_task(stream(service.url, journal)) for _ in range(CLIENTS)
                ]
                await asyncio.sleep(random.uniform(0.02, 0.4))
                service.kill()
                await asyncio.gather(*clients)
            journal.check(data / "ledger.sqlite")
        print(f"{AT_RANDOM} lives ended at random, {journal.acknowledged} acknowledged")
        assert journal.acknowledged > AT_RANDOM * CLIENTS
        await come_to_rest(data, world, journal)


@pytest.mark.timeout(600)
async def test_a_service_that_is_killed_at_random_breaks_no_promise(tmp_path: Path) -> None:
    """The real command, with both backends, again and again."""
    await asyncio.gather(
        die_at_random(tmp_path / "embedded", embedded, SEED + 3),
        die_at_random(tmp_path / "batching", batching, SEED + 4),
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
