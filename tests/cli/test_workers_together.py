"""Several workers are one service: its limits, its keys, its metrics, its logs and its pins."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Final

import aiohttp

from tests.cli.command import run
from tests.http.load import load_on
from tests.waiting import eventually, until
from tests.workers import Clients, Workers, with_workers

CLIENTS: Final = 16


async def ask(session: aiohttp.ClientSession, workers: Workers, path: str, key: str) -> int:
    """The status of a request by *key*, on one of the kept connections of *session*."""
    url = f"http://127.0.0.1:{workers.port}{path}"
    async with session.get(url, headers={"x-api-key": key}) as answer:
        await answer.read()
        return answer.status


async def test_a_limit_is_one_limit(tmp_path: Path) -> None:
    """Workers hear what others let in, and each lets in at most what it knows to be left; and a
    reload does not begin to count anew."""
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": "1600",
    }
    async with with_workers(tmp_path / "data", settings=settings) as workers:
        async with aiohttp.ClientSession() as session:
            clients = Clients(workers, session)
            assert await clients.let_in(800) == 800
            left = await clients.all_know(800)
            assert await clients.let_in(1_600) in range(left, 2 * left + 1)
        before = workers.pids
        workers.service.child.send_signal(signal.SIGHUP)
        await workers.logged("the workers were replaced")
        await until(lambda: not before & workers.pids, seconds=60)
        async with aiohttp.ClientSession() as session:
            found = [await ask(session, workers, "/key", "me") for _ in range(CLIENTS)]
        assert found == [429] * CLIENTS


async def test_a_revoked_key_is_refused_by_every_worker(tmp_path: Path) -> None:
    """On connections that were open before, whichever worker has them."""
    data = tmp_path / "data"
    made = run(data, "keys", "create", "--name", "team", "--scope", "pin")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    async with with_workers(data) as workers, aiohttp.ClientSession() as session:

        async def answers() -> list[int]:
            return await asyncio.gather(
                *(ask(session, workers, "/key", key) for _ in range(CLIENTS))
            )

        assert await answers() == [200] * CLIENTS
        assert run(data, "keys", "revoke", "team").returncode == 0

        async def are_refused() -> bool:
            return await answers() == [401] * CLIENTS

        await eventually(are_refused)


async def test_metrics_are_those_of_all_and_never_fall(tmp_path: Path) -> None:
    """Every answer is counted once, also of a worker that was replaced; and of one that was killed
    all that was told before."""
    async with with_workers(tmp_path / "data") as workers:
        with load_on(workers.port) as load:
            await until(lambda: load.answered > 500)
        assert (load.failures, load.repeated) == ([], 0)

        async def counts() -> float:
            return await workers.number("http_requests_total")

        async def all_are_counted() -> bool:
            return await counts() == load.answered

        await eventually(all_are_counted)
        before = workers.pids
        workers.service.child.send_signal(signal.SIGHUP)
        await workers.logged("the workers were replaced")
        await until(lambda: not before & workers.pids, seconds=60)
        assert await counts() == load.answered
        os.kill(min(workers.pids), signal.SIGKILL)
        await workers.logged("a worker ended, and is replaced")
        assert await counts() == load.answered
        _, text = await workers.page("/metrics")
        assert 'content_gateway_workers{state="wanted"} 2.0' in text
        assert len(re.findall("^process_cpu_seconds_total ", text, re.MULTILINE)) == 1
        assert "Workers" in (await workers.page("/status"))[1]


async def test_lines_of_the_access_log_come_whole(tmp_path: Path) -> None:
    """Those of all workers, in one stream."""
    settings = {"CONTENT_GATEWAY_LOG__ACCESS": "on", "CONTENT_GATEWAY_LOG__FORMAT": "json"}
    async with with_workers(tmp_path / "data", settings=settings) as workers:
        with load_on(workers.port) as load:
            await until(lambda: load.answered > 2_000)
        assert await workers.service.stop(60) == 0
        lines = workers.service.log.read_text().splitlines()
        told = [json.loads(line) for line in lines if line.startswith("{")]
        assert sum(each["event"] == "request" for each in told) == load.answered
        assert not [line for line in lines if '"event":"request"' in line and line[:1] != "{"]
