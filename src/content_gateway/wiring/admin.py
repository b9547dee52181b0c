"""What the admin listener shows: health, readiness, metrics, and one page for people.

Knows which parts can tell. How often checks are asked, and what an answer looks like, is left to
http/admin.py and http/status_page.py, the numbers to metrics.py."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Final, Protocol

from content_gateway.errors import Overloaded, StorageUnavailable
from content_gateway.http import status_page
from content_gateway.http.admin import AdminApi, AdminPage, Check, Readiness, Report
from content_gateway.http.server_state import SharedState
from content_gateway.http.status_page import EndpointRow, ServiceStatus
from content_gateway.model.backlog import PENDING
from content_gateway.settings.groups import AdminSettings
from content_gateway.settings.model import Settings
from content_gateway.telemetry.numbers import Family
from content_gateway.wiring.app import Application
from content_gateway.wiring.metrics import READ_SECONDS, LimitStore, Metrics

EXPOSITION: Final = "content_gateway.telemetry.exposition"
MEDIA_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_STUCK: Final = 50  # contents that the page shows
_REASONS: Final = 10


class Views(Protocol):
    """What an admin listener shows: of this process, or of all workers (all_workers.py)."""

    async def report(self) -> Report:
        """Whether the service may get traffic."""

    async def families(self) -> Sequence[Family]:
        """Its metrics."""

    async def status(self) -> ServiceStatus:
        """What a person looks for."""

    def workers(self) -> Sequence[int]:
        """The ids of the processes that do the work, if that is not this one."""


def admin_pages(views: Views) -> AdminApi:
    """The admin listener's application, which shows *views*."""

    async def livez() -> AdminPage:
        return AdminPage(b"ok\n")

    async def readyz() -> AdminPage:
        report = await views.report()
        return AdminPage(report.text().encode(), status=200 if report.is_ready else 503)

    async def exposition() -> AdminPage:
        # In threads, as both take long: the library's import, and making the text.
        library = await asyncio.to_thread(import_module, EXPOSITION)
        families = await views.families()
        text = await asyncio.to_thread(library.exposed, families, views.workers())
        return AdminPage(text, MEDIA_TYPE)

    async def status() -> AdminPage:
        return status_page.render(await views.status())

    return AdminApi({"/livez": livez, "/readyz": readyz, "/metrics": exposition, "/status": status})


class LocalViews:
    """What this process shows of itself."""

    def __init__(self, gateway: Application, readiness: Readiness, metrics: Metrics) -> None:
        self._gateway = gateway
        self._started = datetime.now(UTC)
        self.report = readiness.report
        self.families = metrics.families

    async def status(self) -> ServiceStatus:
        """As `Views.status`."""
        report = await self.report()
        return await _status(self._gateway, report.reasons, self._started)

    def workers(self) -> Sequence[int]:
        """None."""
        return ()


@asynccontextmanager
async def views_of(
    gateway: Application,
    settings: Settings,
    state: SharedState,
    *,
    store: LimitStore | None = None,
    is_worker: bool = False,
) -> AsyncIterator[LocalViews]:
    """What the process with *gateway* shows, and the server whose *state* it is; *store* shares its
    limits.

    A *worker* that leaves says nothing about the service."""

    def is_draining() -> bool:
        return state.is_draining and not is_worker

    checks = readiness_checks(gateway, settings.admin, is_draining)
    readiness = Readiness(checks, is_draining=is_draining)
    metrics = Metrics(gateway, settings, state=state, readiness=readiness, store=store)
    try:
        yield LocalViews(gateway, readiness, metrics)
    finally:
        await readiness.close()


def readiness_checks(
    gateway: Application, chosen: AdminSettings, is_stopping: Callable[[], bool]
) -> Mapping[str, Check]:
    """What must hold for the service to get traffic, by name, in the order in which it is shown."""

    async def stopping() -> str | None:
        return "the service is stopping" if is_stopping() else None

    async def ledger() -> str | None:
        try:
            await gateway.ledger.check_writable()
        except StorageUnavailable as failed:
            return failed.detail
        return None

    verdict: str | None = None  # the backlog's last one

    async def backlog() -> str | None:
        nonlocal verdict
        try:
            async with asyncio.timeout(READ_SECONDS):
                waiting = await gateway.contents.waiting(1, PENDING)
        except StorageUnavailable as failed:
            return failed.detail
        except (Overloaded, TimeoutError):  # others search: that says nothing about the backlog
            return verdict
        seconds = max(
            ((datetime.now(UTC) - one.since).total_seconds() for one in waiting), default=0
        )
        verdict = None
        if seconds > chosen.oldest_waiting:
            longest = f"{chosen.oldest_waiting:g} s"
            verdict = f"a pin has waited for {seconds:.0f} s, longer than {longest}"
        return verdict

    checks: dict[str, Check] = {"stopping": stopping, "ledger": ledger}
    return checks | ({"backlog": backlog} if chosen.oldest_waiting else {})


async def _status(
    gateway: Application, checks: Mapping[str, str | None], started: datetime
) -> ServiceStatus:
    """How the service is now; what cannot be read is left out, and said to be."""
    now = datetime.now(UTC)
    status = ServiceStatus(
        now=now,
        started=started,
        checks=checks,
        endpoints=[
            EndpointRow(kind, one.name, not one.breaker.is_open, one.usual_latency)
            for kind, chain in gateway.chains.by_kind.items()
            for one in chain.endpoints
        ],
        keys=status_page.key_rows(gateway.limits, gateway.traffic.clock()),
    )
    try:
        status.health = await gateway.health.last()
        async with asyncio.timeout(READ_SECONDS):
            backlog = await gateway.contents.backlog(now)
            reasons = await gateway.contents.reasons(_REASONS)
            stuck = await gateway.contents.waiting(_STUCK)
        status.backlog, status.reasons, status.stuck = backlog, reasons, stuck
    except (StorageUnavailable, Overloaded) as failed:
        status.unread = failed.detail
    except TimeoutError:
        status.unread = f"The ledger was not read in {READ_SECONDS:g} s."
    return status
