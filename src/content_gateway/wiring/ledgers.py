"""The registry of ledgers: what each of them has, and how it is opened.

A ledger is every store that is in one database. Knows which one `database.url` names; what is in
it, and how, is left to the adapters in ledger/."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from content_gateway.api_keys import KeyActivity, KeyStore
from content_gateway.errors import WrongSettings
from content_gateway.ipns.link_cache import IpnsStore
from content_gateway.ledger.copying import Copy, copy_all
from content_gateway.ledger.inspection import Inspection
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.sqlite.backups import inspected, recounted, version_of_file
from content_gateway.ledger.sqlite.inspection import current_version
from content_gateway.ledger.sqlite.ledger import SqliteLedger
from content_gateway.ledger.sqlite.whole_copy import SqliteCopy
from content_gateway.model.audit import AuditEntry, AuditSearch
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.backlog import PENDING, Backlog, Waiting
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, ResyncReport
from content_gateway.model.pins import Holdings, PinStatus
from content_gateway.names.cache import LastKnown
from content_gateway.pins.backend_health import HealthLedger
from content_gateway.pins.pinning import PinLedger
from content_gateway.pins.resync import ResyncLedger
from content_gateway.pins.work_queue import WorkQueue
from content_gateway.settings.model import Settings
from content_gateway.settings.values import is_postgres
from content_gateway.telemetry.numbers import Histogram

if TYPE_CHECKING:
    from content_gateway.ledger.postgres.ledger import PostgresLedger


class Pins(PinLedger, Protocol):
    """The requestors' pins, and what the reconciler reads of them."""

    async def origins(self, cid: Cid) -> Sequence[Sequence[str]]:
        """The origins of the newest pins of *cid* that have any, by pin."""


class ObservableWorkQueue(WorkQueue, Protocol):
    """The work queue, and reports on it for operators. Methods raise StorageUnavailable."""

    async def expedite(self) -> None:
        """Make all that waits due now."""

    async def counts(self) -> Mapping[ContentState, int]:
        """How many contents are in each state; reads all of them."""

    async def backlog(self, since: datetime) -> Backlog:
        """How many contents want reconciling. Those that failed after *since* are not due."""

    async def reasons(self, limit: int) -> Mapping[str | None, int]:
        """The *limit* most frequent reasons why promised contents are not pinned, None for none."""

    async def waiting(
        self, limit: int, states: Collection[ContentState] = (*PENDING, ContentState.FAILED)
    ) -> Sequence[Waiting]:
        """At most *limit* contents that are promised and in one of *states*, those that have been
        in it the longest first."""


class Resyncs(ResyncLedger, Protocol):
    """What a resync needs, and its last report."""

    async def last_report(self) -> ResyncReport | None:
        """The last report; None if there is none."""


class Health(HealthLedger, Protocol):
    """The last known health of the backend."""

    async def last(self) -> BackendHealth | None:
        """The stored health; None without one that this version can read. StorageUnavailable."""


class LastKnownAnswers(LastKnown, IpnsStore, Protocol):
    """The last known answers about names, and entries of IPNS."""


class Activity(KeyActivity, Protocol):
    """Who takes note of the use of keys."""

    async def flush(self) -> None:
        """Write what was noted; kept for the next time where that fails."""


class Writes(Protocol):
    """The group commits of a ledger in numbers."""

    @property
    def unanswered(self) -> int:
        """How many writes wait or are under way."""

    @property
    def sizes(self) -> Histogram:
        """How many writes each commit had."""

    @property
    def seconds(self) -> Histogram:
        """How long each commit took."""


class Ledger(Protocol):
    """An open ledger: its stores, and what operators ask of all of it."""

    @property
    def pins(self) -> Pins:
        """The requestors' pins."""

    @property
    def work(self) -> ObservableWorkQueue:
        """The contents that want reconciling."""

    @property
    def resyncs(self) -> Resyncs:
        """The resyncs."""

    @property
    def health(self) -> Health:
        """The backend's health."""

    @property
    def keys(self) -> KeyStore:
        """The issued keys."""

    @property
    def writes(self) -> Writes:
        """The group commits."""

    def listen(self, heard: Callable[[], None]) -> None:
        """Have *heard* called when another process has made something due, where that can be heard.

        A hint: whoever waits for work polls as well."""

    def last_known(self) -> AbstractAsyncContextManager[LastKnownAnswers]:
        """The last known answers, to be opened before the first is asked for."""

    def key_activity(self) -> AbstractAsyncContextManager[Activity]:
        """Who writes down when keys are used, to be opened before the first is."""

    async def check_writable(self) -> None:
        """Commit something durably that changes nothing; raises StorageUnavailable."""

    async def search_audit(self, search: AuditSearch) -> Sequence[AuditEntry]:
        """A page of the entries that *search* finds, newest first; raises StorageUnavailable."""

    async def holdings_by_key(self) -> Mapping[str, Holdings]:
        """The holdings of each issued key that has pins, by its id; raises StorageUnavailable."""

    async def requestor_from(self, least: str) -> str | None:
        """The first requestor with pins in the order of their ids, *least* or behind it; None at
        the end. Raises StorageUnavailable."""

    def oldest_first(self, requestor: str) -> AsyncIterator[Sequence[PinStatus]]:
        """All pins of *requestor* in pages, each one moment of the ledger; StorageUnavailable."""


def ledger_of(settings: Settings) -> AbstractAsyncContextManager[Ledger]:
    """The ledger of `database.url`, to be entered; that raises WrongSettings."""
    options = LedgerOptions(settings.pins.unpin_grace, settings.audit.entries)
    if settings.has_shared_ledger:
        return _postgres(settings, options, checks=True)
    return SqliteLedger(settings.ledger_path, options)


async def upgrade(settings: Settings) -> Sequence[int]:
    """Bring the schema of the ledger up to date; the versions that were reached.

    Raises WrongSettings and StorageUnavailable. A SQLite file is upgraded by whoever opens it."""
    if not settings.has_shared_ledger:
        before = version_of_file(settings.ledger_path)
        async with ledger_of(settings):
            return range(before + 1, current_version() + 1)
    async with _postgres(settings, LedgerOptions(), checks=False) as ledger:
        return await ledger.migrations.upgrade(ledger.database)


async def recount(settings: Settings) -> int:
    """Count the pins of all requestors again; of how many the count was wrong. GatewayError."""
    if not settings.has_shared_ledger:
        return await asyncio.to_thread(recounted, settings.ledger_path)
    async with _postgres(settings, LedgerOptions(), checks=True) as ledger:
        return await ledger.recount()


async def inspect(settings: Settings) -> Inspection:
    """What is found in the ledger, which nobody has to stop for; raises GatewayError."""
    if not settings.has_shared_ledger:
        return await asyncio.to_thread(inspected, settings.ledger_path)
    async with _postgres(settings, LedgerOptions(), checks=False) as ledger:
        return await ledger.inspect()


async def copy(original: str, place: str, shown: Callable[[str, int], None]) -> Mapping[str, int]:
    """Copy the ledger at the URL *original* to *place*, where none is, or go on with that.

    How many rows each table has; *shown* is told how far it is. Raises GatewayError."""
    async with _whole(original, is_new=False) as source, _whole(place, is_new=True) as target:
        return await copy_all(source, target, shown)


def _whole(url: str, *, is_new: bool) -> "AbstractAsyncContextManager[Copy]":
    """The ledger at *url*, to be copied from or, where it *is_new*, to; raises WrongSettings."""
    if not is_postgres(url):
        if not url.startswith("sqlite:///"):
            raise WrongSettings(f"{url} is neither sqlite:///PATH nor postgresql://...")
        return SqliteCopy(Path(url.removeprefix("sqlite:///")), is_new=is_new)
    from content_gateway.ledger.postgres.ledger import ServerOptions
    from content_gateway.ledger.postgres.whole_copy import PostgresCopy

    return PostgresCopy(ServerOptions(url, connections=2), is_new=is_new)


def _postgres(settings: Settings, options: LedgerOptions, *, checks: bool) -> "PostgresLedger":
    # Here, so that whoever has a file pays nothing for the driver (90 ms).
    from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions

    chosen = settings.database
    server = ServerOptions(chosen.url, chosen.connections, chosen.timeout)
    return PostgresLedger(server, options, checks=checks)
