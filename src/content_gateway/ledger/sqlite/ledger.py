"""The ledger in one SQLite file: every store of it, opened and closed together.

Knows which stores there are; each knows its tables. One machine has the file, and several of its
processes may have it open. Which ledger a service has is decided in wiring/."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.sqlite.api_keys import SqliteKeys
from content_gateway.ledger.sqlite.audit import AuditLog, search_audit
from content_gateway.ledger.sqlite.backend_health import SqliteBackendHealth
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.holdings import holdings_by_key
from content_gateway.ledger.sqlite.key_activity import SqliteKeyActivity
from content_gateway.ledger.sqlite.last_known import SqliteLastKnown
from content_gateway.ledger.sqlite.pin_export import oldest_first
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.ledger.sqlite.requestors import requestor_from
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.model.audit import AuditEntry, AuditSearch
from content_gateway.model.pins import Holdings, PinStatus
from content_gateway.sqlite.group_commit import GroupWriter


class SqliteLedger:
    """The ledger in the file at *path*, open between its entrance and its exit."""

    def __init__(
        self, path: Path, options: LedgerOptions, clock: Callable[[], float] = time.time
    ) -> None:
        self.database = LedgerDatabase(path)
        audit = self._audit = AuditLog(options.audit_entries)
        self._today = lambda: datetime.fromtimestamp(clock(), UTC)
        self.pins = SqlitePins(self.database, grace=options.grace, audit=audit, clock=clock)
        self.work = SqliteWorkQueue(self.database, grace=options.grace, clock=clock)
        self.resyncs = SqliteResyncs(self.database, clock=clock)
        self.health = SqliteBackendHealth(self.database)
        self.keys = SqliteKeys(self.database, audit)

    async def __aenter__(self) -> Self:
        """Raises WrongSettings when the file cannot be created or opened, or is not ours."""
        await self.database.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.database.__aexit__(*exc_info)

    def listen(self, heard: Callable[[], None]) -> None:
        """Nothing is heard of other processes: the file is polled."""

    def last_known(self) -> SqliteLastKnown:
        """The last known answers, to be opened before the first is asked for."""
        return SqliteLastKnown(self.database, today=self._today)

    def key_activity(self) -> SqliteKeyActivity:
        """Who writes down when keys are used, to be opened before the first is."""
        return SqliteKeyActivity(self.database, self._audit, today=self._today)

    @property
    def writes(self) -> GroupWriter:
        """The group commits, for their numbers."""
        return self.database.writes

    @property
    def pool(self) -> None:
        """A file needs no connections that could run out."""
        return None

    async def claim_backend(self, kind: str) -> None:
        """Nothing: the processes that may have the file are of one machine, and a lock beside it
        lets those with one backend in. Another one may follow when they have ended."""

    async def check_writable(self) -> None:
        """Commit something durably that changes nothing; raises StorageUnavailable."""
        await self.database.check_writable()

    async def search_audit(self, search: AuditSearch) -> Sequence[AuditEntry]:
        """A page of the entries that *search* finds, newest first; raises StorageUnavailable."""
        return await search_audit(self.database, search)

    async def holdings_by_key(self) -> Mapping[str, Holdings]:
        """The holdings of each issued key that has pins, by its id; raises StorageUnavailable."""
        return await holdings_by_key(self.database)

    async def requestor_from(self, least: str) -> str | None:
        """The first requestor with pins in the order of their ids, *least* or behind it; None at
        the end. Raises StorageUnavailable."""
        return requestor_from(self.database, least)

    def oldest_first(self, requestor: str) -> AsyncIterator[Sequence[PinStatus]]:
        """All pins of *requestor* in pages, each one moment of the ledger; StorageUnavailable."""
        return oldest_first(self.database, requestor)
