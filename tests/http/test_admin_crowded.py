"""The admin listener while tenants' searches of the ledger have every thread and every place."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from content_gateway.http.admin import AdminApi, Readiness
from content_gateway.http.limits import ClientLimits
from content_gateway.http.server_state import SharedState
from content_gateway.ledger.sqlite.ledger import SqliteLedger
from content_gateway.settings.groups import AdminSettings
from content_gateway.settings.sources import load
from content_gateway.sqlite.searches import MAX_WAITING_SEARCHES
from content_gateway.telemetry.exposition import exposed
from content_gateway.wiring.admin import admin_pages, readiness_checks, views_of
from content_gateway.wiring.app import Application
from content_gateway.wiring.metrics import Metrics
from tests.cli.command import cids
from tests.clock import Clock
from tests.service import running_service
from tests.waiting import eventually

_THREADS = 4  # of searches


@asynccontextmanager
async def crowded(gateway: Application) -> AsyncIterator[None]:
    """As many tenants search the ledger as may, and none of the searches ends before this does."""
    begun, goes_on = threading.Semaphore(0), threading.Event()

    def held(_: sqlite3.Connection) -> None:
        begun.release()
        goes_on.wait(60)

    def search(number: int) -> asyncio.Task[None]:
        assert isinstance(gateway.ledger, SqliteLedger)
        return asyncio.create_task(
            gateway.ledger.database.search(held, requestor=f"tenant {number}")
        )

    running = [search(number) for number in range(_THREADS)]
    for _ in running:
        await asyncio.to_thread(begun.acquire)
    waiting = [search(_THREADS + number) for number in range(MAX_WAITING_SEARCHES)]
    await asyncio.sleep(0)  # all of them ask
    try:
        yield
    finally:
        goes_on.set()
        await asyncio.gather(*running, *waiting, return_exceptions=True)


async def page(api: AdminApi, path: str) -> tuple[int, str]:
    """Status and body of the answer to a GET of *path*."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("there is no body")

    async def send(message: Any) -> None:
        sent.append(message)

    await api({"type": "http", "method": "GET", "path": path}, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


async def test_its_pages_are_answered_though_tenants_search(tmp_path: Path) -> None:
    """Without what could not be read, which /status says; and the service is ready."""
    settings = load(
        environ={}, command_line={"data_dir": tmp_path, "admin.oldest_waiting": 1000}
    ).settings
    async with (
        running_service(tmp_path) as service,
        views_of(service.gateway, settings, SharedState(ClientLimits())) as views,
        crowded(service.gateway),
    ):

        async def is_ready() -> bool:  # its checks have two seconds, which a busy machine may need
            status, text = await page(admin_pages(views), "/readyz")
            return status == 200 and "[+]backlog ok" in text

        await eventually(is_ready)
        status, text = await page(admin_pages(views), "/metrics")
        assert (status, "content_gateway_ready " in text) == (200, True)
        status, text = await page(admin_pages(views), "/status")
        assert (status, "was not read in" in text) == (200, True)


async def test_what_was_never_read_is_not_told_as_well(tmp_path: Path) -> None:
    """A page without a number is not taken for a backlog that is empty."""
    settings = load(environ={}, command_line={"data_dir": tmp_path}).settings
    oldest = "content_gateway_oldest_waiting_seconds"
    async with (
        running_service(tmp_path) as service,
        views_of(service.gateway, settings, SharedState(ClientLimits())) as views,
    ):
        async with crowded(service.gateway):
            assert oldest not in (await page(admin_pages(views), "/metrics"))[1]
        assert f"{oldest} 0.0" in (await page(admin_pages(views), "/metrics"))[1]


async def test_what_was_read_long_ago_is_not_told_as_of_now(tmp_path: Path) -> None:
    """A ledger that is gone takes its numbers along once they are old, each by itself."""
    settings = load(environ={}, command_line={"data_dir": tmp_path}).settings
    oldest, contents = "content_gateway_oldest_waiting_seconds", "content_gateway_contents{"
    clock = Clock()
    async with running_service(tmp_path) as service:
        readiness = Readiness({})
        state = SharedState(ClientLimits())
        metrics = Metrics(service.gateway, settings, state=state, readiness=readiness, clock=clock)

        async def told() -> str:
            return exposed(await metrics.families()).decode()

        text = await told()
        assert oldest in text
        assert contents in text
        async with crowded(service.gateway):
            clock.pass_(299)
            assert oldest in await told()
            clock.pass_(2)
            text = await told()
            assert oldest not in text
            assert contents not in text
            assert "content_gateway_backend_up" in text  # which no tenant's search keeps back
        assert oldest in await told()
        await readiness.close()


async def test_readiness_keeps_its_verdict_while_tenants_search(tmp_path: Path) -> None:
    """A pin that has waited too long is not forgotten because the ledger could not be read."""
    async with running_service(tmp_path) as service:
        chosen = AdminSettings(oldest_waiting=0.001)
        backlog = readiness_checks(service.gateway, chosen, lambda: False)["backlog"]
        (cid,) = cids(1)
        await service.pin(cid)

        async def is_red() -> bool:
            return await backlog() is not None

        await eventually(is_red)
        async with crowded(service.gateway):
            assert "a pin has waited" in (await backlog() or "")
