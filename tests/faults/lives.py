"""Lives of a service that end by SIGKILL: at a named point of failpoints.py, or at random.

Each life has requests, which a journal remembers; after the last one a service that nobody kills
brings everything about. Which ledger that is in, and how many lives it has, is left to others."""

import asyncio
import os
import random
import sys
import time
from collections import Counter
from functools import partial

import aiohttp

from tests.faults.backends import World
from tests.faults.failpoints import FAILPOINTS, RESYNC_POINTS
from tests.faults.ground import Ground
from tests.faults.journal import Journal
from tests.faults.ledger_rows import LedgerRows
from tests.process import QUIET
from tests.waiting import until

CLIENTS = 8
LIVES = 3.0  # seconds that a service has to reach its point


async def live(ground: Ground, world: World, journal: Journal, point: str, passages: int) -> bool:
    """One life of the service of failpoints.py, with requests; whether it died at its point."""
    environment = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    environment |= QUIET | world.settings | dict(ground.settings)
    environment |= {"CONTENT_GATEWAY_DATA_DIR": str(ground.folder / "data")}
    program = (sys.executable, "-m", "tests.faults.failpoints", point, str(passages))
    with (ground.folder / "data.log").open("a") as log:
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


async def die_at_points(
    ground: Ground, world: World, journal: Journal, lives: int, *, seed: int
) -> Counter[str]:
    """Many lives that end at named points; how often each point was not reached."""
    missed, chance = Counter[str](), random.Random(seed)
    for cid, content in journal.contents(ahead=300 * lives):
        world.provide(cid, content)
    for number in range(lives):
        point = FAILPOINTS[(number + seed) % len(FAILPOINTS)]
        passages = 1 if point in RESYNC_POINTS else chance.choice([1, 1, 2, 5])
        if not await live(ground, world, journal, point, passages):
            missed[point] += 1
        journal.check(ground.rows)
        ground.rows.let_leases_run_out()
    return missed


async def die_at_random(ground: Ground, world: World, journal: Journal, lives: int) -> None:
    """Many lives of the real command that end in the middle of a stream of requests."""
    for cid, content in journal.contents(ahead=1000 * lives):
        world.provide(cid, content)
    for _ in range(lives):
        async with ground.serving(world.settings) as service:
            clients = [asyncio.create_task(stream(service.url, journal)) for _ in range(CLIENTS)]
            await asyncio.sleep(random.uniform(0.02, 0.4))
            service.kill()
            await asyncio.gather(*clients)
        journal.check(ground.rows)


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


def has_fewer(rows: LedgerRows, left: int) -> bool:
    """Whether less is unsettled than the *left* of before, by one in a hundred at least."""
    return rows.unsettled() <= left * 0.99


async def come_to_rest(ground: Ground, world: World, journal: Journal) -> float:
    """A service that nobody kills brings everything about, and then the backend has just that.

    The seconds from its first start until nothing was left to do."""
    took = []
    for _ in range(2):
        # A cluster may have lost what was final; the resync of the next start finds out.
        async with ground.serving(world.settings) as service:
            begun = time.monotonic()
            # Leases of the dead run out first.
            # However many there are by then, as long as they become fewer.
            left = ground.rows.unsettled()
            while left:
                await until(partial(has_fewer, ground.rows, left), seconds=60)
                left = ground.rows.unsettled()
            took.append(time.monotonic() - begun)
            assert await service.stop() == 0
    journal.check(ground.rows)
    assert await world.kept(ground.folder / "data") == journal.held()
    return took[0]
