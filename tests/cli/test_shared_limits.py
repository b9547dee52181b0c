"""Two services of two workers each, as on two machines: one limit, through one store."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.cli.command import run
from tests.waiting import until
from tests.workers import Workers, with_workers
from tests.world.stores import KINDS, Store, running_store

CLIENTS = 8
LIMITS_URL = "CONTENT_GATEWAY_LIMITS__URL"


async def let_in(workers: Workers, requests: int) -> int:
    """How many of so many requests, on several connections, get 200."""
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{workers.port}/key"

        async def client() -> int:
            found = 0
            for _ in range(requests // CLIENTS):
                async with session.get(url, headers={"x-api-key": "me"}) as answer:
                    found += answer.status == 200
            return found

        return sum(await asyncio.gather(*(client() for _ in range(CLIENTS))))


def settings_of(store: Store, per_day: int) -> dict[str, str]:
    return {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": str(per_day),
        LIMITS_URL: store.url,
    }


async def settled(*services: Workers) -> None:
    """Wait for some more exchanges of each: what was let in before is known to all then."""
    for service in services:
        before = await service.number("limits_store_rounds_total")
        while await service.number("limits_store_rounds_total") < before + 6:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", KINDS)
async def test_two_machines_have_one_limit(kind: str, tmp_path: Path) -> None:
    """What one has let in the other knows; a worker that begins, and a service that is started
    again, know it too."""
    async with running_store(kind, tmp_path / "store") as store:
        chosen = settings_of(store, 1_000)
        async with (
            with_workers(tmp_path / "one", settings=chosen) as one,
            with_workers(tmp_path / "two", settings=chosen) as two,
        ):
            assert await one.number("limits_store_up") == 1
            assert await let_in(one, 400) == 400
            await settled(one, two)
            assert await let_in(two, 800) in range(600, 606)
            await settled(one, two)
            assert await let_in(one, 80) == 0
            assert await two.service.stop(60) == 0
        async with with_workers(tmp_path / "two", settings=chosen) as again:
            assert await let_in(again, 80) == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_requests_do_not_wait_for_a_store(workers: int, tmp_path: Path) -> None:
    """One that hangs; the metrics and the log say so, and workers still share among themselves."""
    async with running_store("valkey", tmp_path / "store") as store:
        chosen = settings_of(store, 200)
        async with with_workers(tmp_path / "one", workers, settings=chosen) as one:
            store.hang()
            try:
                assert await let_in(one, 80) == 80
                await one.logged("the store of the limits is away")
                await until(lambda: "reason='it does not answer" in one.service.log.read_text())
                assert await one.number("limits_store_up") == 0
                assert await let_in(one, 800) in range(120, 130)
            finally:
                store.go_on()
            await one.logged("the store of the limits answers again")
            assert await one.number("limits_store_up") == 1
            assert await let_in(one, 80) == 0
            assert await one.service.stop(60) == 0


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_wrong_url_ends_the_start(workers: str, tmp_path: Path) -> None:
    """With words that say which setting, and nothing of the password."""
    async with running_store("redis", tmp_path / "store", requirepass="right") as store:
        url = f"redis://:hush-hush@127.0.0.1:{store.port}"
        ended = run(tmp_path / "data", "serve", "--workers", workers, LIMITS__URL=url)
        told = ended.stdout + ended.stderr
        assert ended.returncode == 2, told
        assert "limits.url: it refuses the user or the password" in told
        assert "hush" not in told
