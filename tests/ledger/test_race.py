"""Many processes pin the same contents at the same time: no acknowledged pin is lost, and no two of
them wait for each other.

The statement that one would write first loses some (docs/facts/postgres.md), so this stays."""

import asyncio
import os
import sys
import time

import msgspec
import pytest

from tests.world import postgres

PROCESSES = 6
REQUESTORS = 32


class Racer(msgspec.Struct):
    """What a process of the race tells."""

    answers: dict[str, int]
    acknowledged: set[tuple[int, int]]


async def raced(url: str, contents: int, requests: int) -> list[Racer]:
    """What each of the processes got, which began together."""
    racers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.ledger.race", url),
            *map(str, (number, contents, requests, REQUESTORS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )
        for number in range(PROCESSES)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            while (line := await racer.stdout.readline()) != b"ready\n":
                assert line, "it ended"
        told = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))
    finally:
        for racer in racers:
            if racer.returncode is None:
                racer.kill()
                await racer.wait()
    return [msgspec.json.decode(out.splitlines()[-1], type=Racer) for out, _ in told]


async def check(server: postgres.Postgres, contents: int, requests: int) -> None:
    """Race, and see that the ledger has what was acknowledged, and nothing was refused."""
    url = server.new_ledger()
    database = url.rpartition("/")[2]
    begun = time.monotonic()
    racers = await raced(url, contents, requests)
    seconds = time.monotonic() - begun
    asked = {answer for racer in racers for answer in racer.answers}
    assert asked <= {"added", "there"}
    held = await asyncio.to_thread(
        server.run,
        "SELECT r.requestor, c.cid FROM pins p JOIN requestors r ON r.number = p.requestor"
        " JOIN contents c ON c.id = p.content",
        database,
    )
    acknowledged = set().union(*(racer.acknowledged for racer in racers))
    added = sum(racer.answers.get("added", 0) for racer in racers)
    assert len(held) == len(acknowledged) == added
    ((deadlocks, commits),) = await asyncio.to_thread(
        server.run,
        f"SELECT deadlocks, xact_commit FROM pg_stat_database WHERE datname = '{database}'",
    )
    assert deadlocks == 0
    total = PROCESSES * requests
    print(
        f"{total:,} requests, {added:,} pins, {commits:,} transactions, {total / seconds:,.0f}/s,"
        " 0 lost, 0 deadlocks"
    )


async def test_no_acknowledged_pin_is_lost_between_processes() -> None:
    """Six processes, and each pin wanted by several of them."""
    await check(postgres.shared("15"), contents=200, requests=3_000)


@pytest.mark.deep
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("version", postgres.VERSIONS)
async def test_none_is_lost_in_a_long_race(version: str) -> None:
    """The same, with everything on disk before it is acknowledged; RACE_REQUESTS takes more."""
    with postgres.durable(version, max_connections="100") as server:
        await check(server, 10_000, int(os.environ.get("RACE_REQUESTS", "200000")) // PROCESSES)
