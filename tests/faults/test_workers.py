"""Pins on several workers that are killed again and again: done by whoever has the lease."""

import asyncio
import os
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import aiohttp
import pytest

from content_gateway.model.cid import Cid
from tests.chance import SEED
from tests.faults.backends import World, batching, embedded
from tests.faults.journal import block
from tests.waiting import eventually, until
from tests.workers import Workers, with_workers

PINS = 150
CLIENTS = 8
KILLS = 3


@pytest.mark.parametrize("opened", [embedded, pytest.param(batching, marks=pytest.mark.deep)])
async def test_every_acknowledged_pin_is_kept_once(
    tmp_path: Path, opened: Callable[[], AbstractAsyncContextManager[World]]
) -> None:
    """By two workers on one ledger and one block store, three of which are killed by and by; both
    files are whole in the end."""
    data, random_ = tmp_path / "data", random.Random(SEED)
    async with opened() as world:
        wanted = [block(number) for number in range(PINS)]
        for cid, content in wanted:
            world.provide(cid, content)
        settings = {**world.settings, "CONTENT_GATEWAY_KEYS__MODE": "open"}
        async with with_workers(data, settings=settings) as workers:
            acknowledged: list[Cid] = []
            adding = asyncio.gather(
                *(add(workers, wanted[each::CLIENTS], acknowledged) for each in range(CLIENTS))
            )
            for kill in range(1, KILLS + 1):
                await until(lambda kill=kill: len(acknowledged) > kill * PINS // 5, seconds=60)  # type: ignore[misc]
                os.kill(random_.choice(sorted(workers.pids)), signal.SIGKILL)
                await workers.logged("a worker ended, and is replaced", kill)
            await adding
            assert len(acknowledged) == PINS

            async def are_pinned() -> bool:
                return await pinned(workers) == PINS

            await eventually(are_pinned, seconds=120)
            assert await workers.service.stop(60) == 0
        assert await world.kept(data) == set(acknowledged)
    for path in data.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def add(workers: Workers, wanted: list[tuple[Cid, bytes]], acknowledged: list[Cid]) -> None:
    """Add each, until it is acknowledged: the worker that is asked may be killed meanwhile."""
    async with aiohttp.ClientSession() as session:
        for cid, _ in wanted:
            url = f"http://127.0.0.1:{workers.port}/ipfs/pin/add/{cid}"
            while True:
                try:
                    async with session.post(url, headers={"x-api-key": "me"}) as answer:
                        assert answer.status == 200, await answer.text()
                        acknowledged.append(cid)
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)


async def pinned(workers: Workers) -> int:
    """How many pins are listed as pinned."""
    url = f"http://127.0.0.1:{workers.port}/psa/pins?limit=1&status=pinned"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={"Authorization": "Bearer me"}) as answer,
    ):
        return int((await answer.json())["count"])
