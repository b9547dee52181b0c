"""What a supervisor shows of all its workers together: readiness, metrics, and the page for people.

Knows how the words and numbers of several processes become one's. Each worker makes its own by
admin.py and is asked when somebody asks here; what those that ended had counted still counts."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from weakref import WeakSet

from content_gateway.http.admin import Report
from content_gateway.http.status_page import EndpointRow, KeyRow, ServiceStatus
from content_gateway.telemetry.merged import lasting, merged
from content_gateway.telemetry.numbers import Family
from content_gateway.wiring.metrics import (
    HeardChain,
    LimitStore,
    of_limit_store,
    of_listeners,
    of_workers,
)

# That one page waits for a worker: a check of readiness has 2, counting the contents 5.
_SECONDS: Final = 2.5
_FAMILIES_SECONDS: Final = 7.5
_STOPPING: Final = "the service is stopping"


class Worker(Protocol):
    """A process; two are never equal, also where one has the other's *pid* by now."""

    @property
    def pid(self) -> int:
        """Its id."""


class Ask(Protocol):
    """Asks every worker at once."""

    def __call__(self, what: str, seconds: float, /) -> Awaitable[Sequence[tuple[Any, Any]]]:
        """What each that serves says, without those that do not answer in so many *seconds*."""


class AllWorkers:
    """The views of as many workers as are *wanted*, which *ask* asks.

    *replaced* is how many have ended by themselves so far; *store* shares their limits, and
    *listeners* hear the chains for them."""

    def __init__(
        self,
        ask: Ask,
        *,
        serving: Callable[[], Sequence[Worker]],
        wanted: Callable[[], int],
        replaced: Callable[[], int],
        is_draining: Callable[[], bool],
        store: LimitStore | None = None,
        listeners: Callable[[], Sequence[HeardChain]] = lambda: (),
    ) -> None:
        self._ask = ask
        self._serving = serving
        self._wanted = wanted
        self._replaced = replaced
        self._is_draining = is_draining
        self._store = store
        self._listeners = listeners
        self._started = datetime.now(UTC)
        self._last: dict[Worker, Sequence[Family]] = {}
        self._ended: list[Family] = []
        self._final = WeakSet[Worker]()  # whose numbers are their last

    def workers(self) -> Sequence[int]:
        """The ids of those that serve."""
        return [worker.pid for worker in self._serving()]

    def has_last(self, worker: Worker, families: Sequence[Family]) -> None:
        """Take the last numbers of a *worker* that is about to end."""
        self._last[worker] = families
        self._final.add(worker)

    def has_ended(self, worker: Worker) -> None:
        """Keep what a *worker* had counted when it was last asked, and its gauges no more."""
        self._final.add(worker)
        self._ended = merged((self._ended, lasting(self._last.pop(worker, ()))))

    async def report(self) -> Report:
        """Green where half of the workers can be sent traffic; each check, where it is so in as
        many."""
        reports = [report for _, report in await self._ask("report", _SECONDS)]
        wanted = self._wanted()
        enough = (wanted + 1) // 2
        ready = sum(report.is_ready for report in reports)
        reasons = {"stopping": _STOPPING if self._is_draining() else None, "workers": None}
        if ready < enough:
            reasons["workers"] = f"{ready} of {wanted} can be sent traffic, {enough} are needed"
        for name in dict.fromkeys(name for report in reports for name in report.reasons):
            found = [report.reasons.get(name) for report in reports]
            is_enough = found.count(None) >= enough
            failed = None if is_enough else next((one for one in found if one), None)
            reasons[name] = reasons.get(name) or failed
        return Report(reasons)

    async def families(self) -> Sequence[Family]:
        """The numbers of all workers as one's, and how many workers there are."""
        answers = await self._ask("families", _FAMILIES_SECONDS)
        self._last |= {worker: said for worker, said in answers if worker not in self._final}
        ours = (
            Family("gauge", "ready", "", (), {(): (await self.report()).is_ready}),
            *of_workers(
                wanted=self._wanted(), serving=len(self._serving()), replaced=self._replaced()
            ),
            *of_limit_store(self._store),
            *of_listeners(self._listeners()),
        )
        known = {family.name: family for family in ours}
        families = merged((*self._last.values(), self._ended, ours))
        return [
            replace(family, numbers=known[family.name].numbers) if family.name in known else family
            for family in families
        ]

    async def status(self) -> ServiceStatus:
        """What the first worker knows of the ledger, and what all of them know of the rest."""
        answers = await self._ask("status", _SECONDS)
        report = await self.report()
        said = [status for _, status in answers]
        now = datetime.now(UTC)
        first = (
            said[0] if said else ServiceStatus(now, now, {}, (), (), unread="No worker answers.")
        )
        first.started, first.checks = self._started, report.reasons
        first.endpoints = list(_endpoints(said))
        first.keys = sorted(_keys(said), key=lambda row: -row.requests)
        heard = {worker for worker, _ in answers}
        first.workers = [
            (worker.pid, "ok" if worker in heard else "does not answer")
            for worker in self._serving()
        ]
        return first


def _endpoints(said: Iterable[ServiceStatus]) -> Iterable[EndpointRow]:
    """Each endpoint once: it is down where one process leaves it alone."""
    found: dict[tuple[str, str], EndpointRow] = {}
    for one in (each for status in said for each in status.endpoints):
        key = (one.kind, one.name)
        if key not in found or (found[key].is_up and not one.is_up):
            found[key] = one
    return found.values()


def _keys(said: Iterable[ServiceStatus]) -> Iterable[KeyRow]:
    """Each key once: its requests to all, and of its limits what most of them know of."""
    found: dict[str, KeyRow] = {}
    for one in (each for status in said for each in status.keys):
        known = found.setdefault(one.name, one)
        if known is not one:
            minute, day = known.minute, known.day
            found[one.name] = replace(
                known,
                requests=known.requests + one.requests,
                minute=minute and max(minute, one.minute or minute),
                day=day and max(day, one.day or day),
            )
    return found.values()
