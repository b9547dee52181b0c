"""Services of one process and of several, as on two machines: one limit, through one store."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.cli.command import run
from tests.waiting import until
from tests.workers import Clients, Workers, with_workers
from tests.world.stores import Store, running_store

LIMITS_URL = "CONTENT_GATEWAY_LIMITS__URL"


async def let_in(workers: Workers, requests: int) -> int:
    """How many of so many requests, on several new connections, get 200."""
    async with aiohttp.ClientSession() as session:
        return await Clients(workers, session).let_in(requests)


def settings_of(store: Store, per_day: int) -> dict[str, str]:
    return {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": str(per_day),
        LIMITS_URL: store.url,
    }


async def told(teller: Workers, hearer: Workers) -> None:
    """Wait for so many exchanges of each that the one has told all, and then the other heard it."""
    for service, rounds in ((teller, 4), (hearer, 2)):
        before = await service.number("limits_store_rounds_total")
        while await service.number("limits_store_rounds_total") < before + rounds:
            await asyncio.sleep(0.05)


async def test_two_machines_have_one_limit(tmp_path: Path) -> None:
    """What one has let in the other knows, also where that has one process."""
    async with running_store("redis", tmp_path / "store") as store:
        chosen = settings_of(store, 1_000)
        async with (
            with_workers(tmp_path / "one", settings=chosen) as one,
            with_workers(tmp_path / "two", 1, settings=chosen) as two,
        ):
            assert await one.number("limits_store_up") == 1
            assert await let_in(one, 400) == 400
            await told(one, two)
            assert await let_in(two, 800) == 600
            await told(two, one)
            assert await let_in(one, 80) == 0


async def test_a_service_that_is_started_again_knows_what_was_counted(tmp_path: Path) -> None:
    """By its supervisor, which has it from the store: all workers know it."""
    async with running_store("valkey", tmp_path / "store") as store:
        chosen = settings_of(store, 80)
        async with with_workers(tmp_path / "one", settings=chosen) as one:
            assert await let_in(one, 80) == 80
            assert await one.service.stop(60) == 0
        async with with_workers(tmp_path / "one", settings=chosen) as again:
            assert await let_in(again, 80) == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_requests_do_not_wait_for_a_store(workers: int, tmp_path: Path) -> None:
    """One that hangs; the metrics and the log say so, and workers still share among themselves."""
    async with running_store("valkey", tmp_path / "store") as store:
        chosen = settings_of(store, 800)
        async with (
            with_workers(tmp_path / "one", workers, settings=chosen) as one,
            aiohttp.ClientSession() as session,
        ):
            clients = Clients(one, session)
            store.hang()
            try:
                assert await clients.let_in(400) == 400
                await one.logged("the store of the limits is unreachable")
                await until(lambda: "reason='it does not answer" in one.service.log.read_text())
                assert await one.number("limits_store_up") == 0
                left = await clients.all_know(400)
                # Until they hear of each other again, each lets in what it knows to be left.
                assert await clients.let_in(1_600) in range(left, workers * left + 1)
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
        settings = {"LIMITS__URL": url, "PORT": "0"}
        ended = run(tmp_path / "data", "serve", "--workers", workers, **settings)
        told = ended.stdout + ended.stderr
        assert ended.returncode == 2, told
        assert "limits.url: it refuses the user or the password" in told
        assert "hush" not in told


def without_the_library(folder: Path) -> dict[str, str]:
    """Settings by which a service finds no valkey-py."""
    (folder / "valkey").mkdir(parents=True)
    (folder / "valkey" / "__init__.py").write_text(
        'raise ModuleNotFoundError("gone", name="valkey")'
    )
    return {
        "PYTHONPATH": str(folder),
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": "1000",
    }


@pytest.mark.parametrize("workers", [1, 2])
async def test_without_the_library_the_start_says_what_to_install(
    workers: int, tmp_path: Path
) -> None:
    """One process or a supervisor; and without `limits.url` nobody needs it."""
    settings = without_the_library(tmp_path / "hidden")
    told = r"limits\.url: valkey is not installed; `pip install content-gateway\[valkey\]`"
    with pytest.raises(AssertionError, match=told):
        async with with_workers(
            tmp_path / "one", workers, settings=settings | {LIMITS_URL: "redis://127.0.0.1:9"}
        ):
            raise NotImplementedError("it has started")
    async with with_workers(tmp_path / "two", workers, settings=settings) as service:
        assert await let_in(service, 8) == 8
