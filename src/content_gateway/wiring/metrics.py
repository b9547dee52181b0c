"""The metrics of a running service, read from its parts when somebody asks for them.

Each metric stands here once, with its name, its labels and the part that has its number, in the
base units and suffixes of Prometheus (prometheus.io/docs/practices/naming). No label is a key, a
CID or a domain that somebody asked for: those have no bound. docs/operating.md says what to do
about each."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from shutil import disk_usage
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from content_gateway.errors import Overloaded, StorageUnavailable
from content_gateway.http.admin import Readiness
from content_gateway.http.server_state import SharedState
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.backlog import PENDING
from content_gateway.model.content_state import ContentState
from content_gateway.settings.model import Settings
from content_gateway.telemetry.logs import logged
from content_gateway.telemetry.numbers import Family, Histogram, Outcomes
from content_gateway.wiring.app import Application

# Counting the contents reads all of them: a million take a tenth of a second, in a thread.
_COUNTED_EVERY: Final = 60.0
_COUNT_SECONDS: Final = 5.0  # half of what Prometheus waits for a page, if nothing is set
# That a page waits for the ledger, which tenants search too; a check of readiness has 2.
READ_SECONDS: Final = 1.5
# That what was read is told on while the ledger cannot be read, which others search: without it an
# alert would begin again each time. After that nobody knows how things are.
_TOLD_FOR: Final = 300.0

_VERSION: Final = version("content-gateway")

Labels: TypeAlias = tuple[str, ...]
LabelsT = TypeVar("LabelsT", bound=Labels)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What the ledger said at the time *at*; not told at all where that is long ago, or never was:
    a number of then would look like how things are."""

    value: T
    at: float = float("-inf")

    def is_told(self, now: float) -> bool:
        """Whether it still stands at *now*."""
        return now - self.at < _TOLD_FOR


class LimitStore(Protocol):
    """The exchange of limits with other services."""

    @property
    def is_up(self) -> bool | None:
        """Whether it goes on, and not each service for itself; None where there is none."""

    @property
    def rounds(self) -> Mapping[str, int]:
        """How many rounds had which outcome."""


class HeardChain(Protocol):
    """A listener to the chain *kind*."""

    @property
    def kind(self) -> str:
        """The word for the chain."""

    @property
    def is_up(self) -> bool:
        """Whether it hears the chain."""

    @property
    def events(self) -> Mapping[str, int]:
        """How much of what was heard."""

    def silent_seconds(self) -> float | None:
        """Since when no new block was heard of; None where none ever was."""


class Metrics:
    """Every metric of *gateway* and of the server whose *state* it is; limits are shared through
    *store*."""

    def __init__(
        self,
        gateway: Application,
        settings: Settings,
        *,
        state: SharedState,
        readiness: Readiness,
        store: LimitStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway = gateway
        self._settings = settings
        self._state = state
        self._readiness = readiness
        self._store = store
        self._clock = clock
        self._health: Reading[BackendHealth | None] = Reading(None)
        self._oldest: Reading[datetime | None] = Reading(None)
        self._contents: Reading[Mapping[ContentState, int]] = Reading({})
        self._count_tried_at = float("-inf")

    async def families(self) -> list[Family]:
        """All of them, as they are now."""
        await self._ask_ledger()
        self._gateway.traffic.flush()
        report = await self._readiness.report()
        return list(self._families(report.is_ready))

    async def _ask_ledger(self) -> None:
        """Read what can be read now, each by itself."""
        now = self._clock()
        with suppress(StorageUnavailable):
            self._health = Reading(await self._gateway.health.last(), now)
        with suppress(StorageUnavailable, Overloaded, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                waiting = await self._gateway.contents.waiting(1, PENDING)
            self._oldest = Reading(waiting[0].since if waiting else None, now)
        if now - self._count_tried_at < _COUNTED_EVERY:
            return
        self._count_tried_at = now  # also where it takes too long: not with each page again
        with suppress(StorageUnavailable, Overloaded, TimeoutError):
            async with asyncio.timeout(_COUNT_SECONDS):
                self._contents = Reading(await self._gateway.contents.counts(), now)

    def _families(self, is_ready: bool) -> Iterator[Family]:
        yield _gauge("build_info", "The version that runs.", {(_VERSION,): 1}, "version")
        yield _gauge("ready", "1 while /readyz is green.", {(): is_ready})
        yield from of_workers(wanted=1, serving=1, replaced=0)
        yield from of_limit_store(self._store)
        yield from self._of_http()
        yield from self._of_names()
        yield from self._of_pins()
        yield from self._of_ledger()
        yield _histogram(
            "event_loop_lag_seconds",
            "How late a timer of a tenth of a second was.",
            {(): self._gateway.lag.seconds},
        )
        yield _counter("log_events", "Events to log, written or not.", _by(logged()), "level")

    def _of_http(self) -> Iterator[Family]:
        traffic, state = self._gateway.traffic, self._state
        answers = {
            (one.route, method, str(status)): number
            for one in traffic.routes
            for (method, status), number in one.answers.items()
        }
        yield _counter(
            "http_requests",
            "Answers; status 0 is one that its client has not had to its end.",
            answers,
            "route",
            "method",
            "status",
        )
        yield _histogram(
            "http_request_duration_seconds",
            "From a request's head to the end of its answer, but for what it was held.",
            {(one.route,): one.seconds for one in traffic.routes},
            "route",
        )
        in_flight = {(): traffic.in_flight}
        text = "Requests without an answer yet."
        yield _gauge("http_requests_in_flight", text, in_flight, across="sum")
        connections = {(): len(state.connections)}
        yield _gauge("http_connections", "Open connections.", connections, across="sum")
        problems = _by(traffic.problems + state.problems)
        yield _counter("http_problems", "Error answers, by docs/errors.md.", problems, "code")
        lost = traffic.access.lost if traffic.access else 0
        yield _counter("access_log_lost", "Lines nobody read in time.", {(): lost})

    def _of_names(self) -> Iterator[Family]:
        gateway = self._gateway
        yield _counter(
            "name_answers",
            "Answers about names, by how old they were: fresh, stale, absent, miss.",
            _by(gateway.directory.answers),
            "cache",
        )
        yield from _outcomes("lookups", "Look-ups of names.", gateway.directory.lookups, "service")
        yield from _outcomes("ipns_lookups", "Look-ups of records.", gateway.ipns.lookups, "source")
        yield from _outcomes("upstream_requests", "Requests to servers.", gateway.upstreams, "kind")
        yield _gauge(
            "upstream_endpoint_up",
            "0 while an endpoint's breaker is open.",
            {
                (kind, endpoint.name): not endpoint.breaker.is_open
                for kind, chain in gateway.chains.by_kind.items()
                for endpoint in chain.endpoints
            },
            "kind",
            "endpoint",
            across="min",
        )

        yield from of_listeners([one for one in gateway.listeners if one.is_started])

    def _of_pins(self) -> Iterator[Family]:
        clock, now = self._clock(), datetime.now(UTC)
        if self._health.is_told(clock):
            health = self._health.value
            is_up = health is None or not health.is_unavailable(now)
            yield _gauge("backend_up", "1 while the pin backend answers.", {(): is_up})
            rejects = health is not None and health.is_rejecting_writes
            yield _gauge("backend_rejecting_writes", "1 while it takes no pins.", {(): rejects})
        if self._contents.is_told(clock):
            contents = self._contents.value
            counted = {(state.value,): contents.get(state, 0) for state in ContentState}
            yield _gauge("contents", "Contents, counted once a minute.", counted, "state")
        if self._oldest.is_told(clock):
            oldest = self._oldest.value
            waited = 0.0 if oldest is None else (now - oldest).total_seconds()
            yield _gauge(
                "oldest_waiting_seconds",
                "How long the pin that waits the longest has waited; failed ones do not.",
                {(): max(0.0, waited)},
            )

    def _of_ledger(self) -> Iterator[Family]:
        writes = self._gateway.ledger.writes
        queued = {(): writes.unanswered}
        yield _gauge("ledger_queued_writes", "Writes not committed.", queued, across="sum")
        yield _histogram("ledger_group_size", "Writes in a commit.", {(): writes.sizes})
        yield _histogram("ledger_commit_duration_seconds", "A commit.", {(): writes.seconds})
        yield from self._of_connections()
        with suppress(OSError):
            free = disk_usage(self._settings.data_dir).free
            yield _gauge("disk_free_bytes", "Free where data_dir is.", {(): free})
        yield _gauge("file_bytes", "Sizes of the database files.", dict(self._files()), "file")

    def _of_connections(self) -> Iterator[Family]:
        """Without a number where the ledger is a file, which has none that could run out."""
        pool = self._gateway.ledger.pool
        numbers = {} if pool is None else {"in_use": pool.in_use, "limit": pool.limit}
        if pool is not None:
            numbers["waiting"] = pool.waiting
        for name, what in (("in_use", "in use"), ("limit", "at most"), ("waiting", "waited for")):
            samples: dict[Labels, int] = {(): numbers[name]} if name in numbers else {}
            text = f"Connections to PostgreSQL, {what}."
            yield _gauge(f"ledger_connections_{name}", text, samples, across="sum")

    def _files(self) -> Iterator[tuple[Labels, int]]:
        chosen = self._settings
        paths = [] if chosen.has_shared_ledger else [("ledger", chosen.ledger_path)]
        for name, path in (*paths, ("blocks", chosen.blocks_path)):
            for label, file in ((name, path), (f"{name}-wal", Path(f"{path}-wal"))):
                with suppress(OSError):
                    yield (label,), file.stat().st_size


def of_workers(*, wanted: int, serving: int, replaced: int) -> Iterator[Family]:
    """The processes of a service, by the one that has them all; a single one is its own."""
    numbers = {("wanted",): wanted, ("serving",): serving}
    yield _gauge("workers", "Processes that are to take requests, and that do.", numbers, "state")
    text = "Processes that ended by themselves, and others took their place."
    yield _counter("workers_replaced", text, {(): replaced})


def of_limit_store(store: LimitStore | None) -> Iterator[Family]:
    """The exchange of limits, by the process that has it; without numbers where there is none."""
    is_up = None if store is None else store.is_up
    up: dict[Labels, float] = {} if is_up is None else {(): is_up}
    yield _gauge("limits_store_up", "1 while limits are shared through it.", up)
    rounds = {} if store is None else _by(store.rounds)
    yield _counter("limits_store_rounds", "Exchanges with it.", rounds, "outcome")


def of_listeners(listeners: Sequence[HeardChain]) -> Iterator[Family]:
    """The listeners to chains, by the process that has them; no numbers where there is none."""
    up = {(one.kind,): one.is_up for one in listeners}
    yield _gauge("chain_listener_up", "1 while a chain is listened to.", up, "chain")
    silent = {(one.kind,): one.silent_seconds() for one in listeners}
    yield _gauge(
        "chain_listener_silent_seconds",
        "Since when no new block was heard of.",
        {labels: seconds for labels, seconds in silent.items() if seconds is not None},
        "chain",
    )
    events = {
        (one.kind, event): number for one in listeners for event, number in one.events.items()
    }
    yield _counter("chain_listener_events", "What was heard.", events, "chain", "event")


def _outcomes(name: str, text: str, outcomes: Outcomes, label: str) -> Iterator[Family]:
    yield _counter(name, text, outcomes.counts, label, "outcome")
    seconds = {(subject,): one for subject, one in outcomes.seconds.items()}
    yield _histogram(f"{name.removesuffix('s')}_duration_seconds", text, seconds, label)


def _counter(name: str, text: str, numbers: Mapping[LabelsT, int], *labels: str) -> Family:
    return Family("counter", name, text, labels, numbers=_copied(numbers))


def _gauge(
    name: str,
    text: str,
    numbers: Mapping[LabelsT, float],
    *labels: str,
    across: Literal["sum", "max", "min"] = "max",
) -> Family:
    return Family("gauge", name, text, labels, numbers=_copied(numbers), across=across)


def _histogram(name: str, text: str, values: Mapping[LabelsT, Histogram], *labels: str) -> Family:
    return Family("histogram", name, text, labels, histograms=_copied(values))


def _copied(values: Mapping[LabelsT, T]) -> dict[Labels, T]:
    return {tuple(labels): value for labels, value in values.items()}


def _by(counts: Mapping[str, int]) -> dict[Labels, int]:
    return {(word,): number for word, number in counts.items()}
