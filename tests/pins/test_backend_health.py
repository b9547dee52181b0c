"""An outage of the backend: every pin that waits says why and until when, and it is kept once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from content_gateway.errors import UpstreamUnavailable
from content_gateway.ledger.sqlite.backend_health import SqliteBackendHealth
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.content_state import BackendStatus, ContentState, Peer, TrackerStatus
from content_gateway.model.pins import Page, PinStatus, Search
from content_gateway.pins.availability import Availability
from content_gateway.pins.backend_health import HealthMonitor
from tests.ledgers import Clock
from tests.pins.reconciled import Backend, Pins
from tests.waiting import until

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


class CountedHealth:
    """The health in the ledger, and every one that was stored."""

    def __init__(self, ledger: SqliteBackendHealth) -> None:
        self._ledger = ledger
        self.stored: list[BackendHealth] = []

    async def store(self, health: BackendHealth) -> None:
        await self._ledger.store(health)
        self.stored.append(health)


@pytest.fixture
def health_ledger(database: LedgerDatabase) -> CountedHealth:
    return CountedHealth(SqliteBackendHealth(database))


@pytest.fixture
async def pins(
    database: LedgerDatabase, backend: Backend, health_ledger: CountedHealth
) -> AsyncIterator[Pins]:
    async with Pins(database, backend, health=health_ledger) as pins:
        yield pins


async def all_of(pins: Pins) -> list[PinStatus]:
    page: Page = await pins.pinning.search("a", Search(limit=1000), lambda page: page)
    return list(page.pins)


@pytest.mark.parametrize("is_rejecting_writes", [False, True])
async def test_every_waiting_pin_says_why_and_until_when(
    pins: Pins, backend: Backend, health_ledger: CountedHealth, is_rejecting_writes: bool
) -> None:
    """Alone and in a list. The reason is not stored in the rows of contents, and it is gone when
    the backend is back."""
    backend.is_unreachable = not is_rejecting_writes
    backend.is_rejecting_writes = is_rejecting_writes
    await pins.add(*range(200))
    pins.start()
    await until(lambda: health_ledger.stored and health_ledger.stored[-1].since is not None)
    what = "takes no pins since 2" if is_rejecting_writes else "cannot be reached since 2"
    listed = await all_of(pins)
    assert len(listed) == 200
    for status in (*listed, await pins.status(199)):
        assert status.error is not None
        assert what in status.error
        assert "; the next try is at 2" in status.error
        assert status.next_at is not None
        assert status.next_at > datetime.now(UTC) - timedelta(seconds=30)
    assert await pins.contents.reasons(9) == {None: 200}
    backend.is_unreachable = backend.is_rejecting_writes = False
    await pins.pinned(*range(200))
    await until(lambda: health_ledger.stored[-1].since is None)
    assert {status.error for status in await all_of(pins)} == {None}


async def test_an_outage_is_a_few_lines_however_many_wait(
    pins: Pins, backend: Backend, health_ledger: CountedHealth
) -> None:
    """The log has a warning at tries 1, 2, 4, 8 and so on, and none for a content; the ledger has
    one row for each try."""
    backend.is_unreachable = True
    with capture_logs() as logged:
        pins.start()
        await pins.add(*range(300))
        await until(lambda: backend.calls >= 20)
    warned = [line for line in logged if line["event"] == "pin backend is unreachable"]
    assert {line["log_level"] for line in warned} == {"warning"}
    assert [line["tries"] for line in warned] == [1, 2, 4, 8, 16][: len(warned)]
    assert not [line for line in logged if line["event"] == "not pinned yet"]
    assert len(health_ledger.stored) <= backend.calls + 1


def waiting(state: ContentState, error: str | None, pin: PinStatus) -> PinStatus:
    return PinStatus(pin.pin, state, error=error, next_at=NOW)


async def test_a_failure_keeps_its_reason_in_an_outage(pins: Pins) -> None:
    """A failed content keeps its own reason, and its next try is when the backend is back; a pinned
    one is not changed."""
    await pins.add(1)
    pin = await pins.status(1)
    again = NOW + timedelta(seconds=8)
    health = BackendHealth(NOW, since=NOW, next_at=again, reason="http://10.0.0.7:9094 refused")
    failed = health.explain_pin(waiting(ContentState.FAILED, "no such block", pin))
    assert (failed.error, failed.next_at) == ("no such block", again)
    slow = health.explain_pin(waiting(ContentState.PINNING, "It takes long.", pin))
    assert (slow.error, slow.next_at) == (health.describe(), again)
    pinned = waiting(ContentState.PINNED, None, pin)
    assert health.explain_pin(pinned) is pinned
    assert "10.0.0.7" not in health.describe()


def test_a_health_that_nobody_renews_is_not_believed() -> None:
    """The process that stored it may have died, or its clock was wrong."""
    health = BackendHealth(NOW, since=NOW, next_at=NOW + timedelta(seconds=8))
    assert health.is_unavailable(NOW + timedelta(minutes=2))
    assert not health.is_unavailable(NOW + timedelta(hours=1))
    assert not health.is_unavailable(NOW - timedelta(days=2))
    assert not BackendHealth(NOW).is_unavailable(NOW)


def test_our_own_fault_is_not_blamed_on_a_backend() -> None:
    health = BackendHealth(NOW, since=NOW, is_ours=True, reason="The disk is full.")
    assert health.describe().startswith("This service cannot keep content since 2026-11-22T03:00")


class InMemory:
    """Health that is stored in memory only."""

    def __init__(self) -> None:
        self.stored: list[BackendHealth] = []

    async def store(self, health: BackendHealth) -> None:
        self.stored.append(health)


async def test_a_backend_that_answers_costs_a_row_in_ten_seconds() -> None:
    """With the last answer, the peers that took part in it, and how many were pinned."""
    clock, ledger = Clock(), InMemory()
    availability = Availability(lambda _: 1.0, clock)
    health = HealthMonitor(availability, ledger, returned=lambda: None, clock=clock, ticks=clock)
    peers = (Peer("one", "pinned"), Peer("two", "cluster_error"))
    for _ in range(100):
        clock.now += 1
        seen = BackendStatus(TrackerStatus.PINNED, 1, 2, peers)
        health.record_answer(None, is_write=False)
        health.record_peers([seen])
        health.record_outcomes([seen, BackendStatus(TrackerStatus.QUEUED), None])
        await health.store()
    assert len(ledger.stored) == 10
    last = ledger.stored[-1]
    assert last.answered_at == datetime.fromtimestamp(clock.now - 9, UTC)
    assert [(node.name, node.answers) for node in last.nodes] == [("one", True), ("two", False)]
    assert (last.pinned, round(last.seconds)) == (91, 91)
    health.record_answer(UpstreamUnavailable("away"), is_write=False)
    await health.store()
    assert ledger.stored[-1].since == datetime.fromtimestamp(clock.now, UTC)
    await health.store()
    assert len(ledger.stored) == 11
