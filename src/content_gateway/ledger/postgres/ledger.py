"""The ledger in PostgreSQL: every store of it, opened and closed together.

Any number of processes on any number of machines may have it open. Knows which stores there are;
each knows its tables. Which ledger a service has is decided in wiring/."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from content_gateway.ledger.inspection import Inspection
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres import whole_ledger
from content_gateway.ledger.postgres.api_keys import PostgresKeys
from content_gateway.ledger.postgres.audit import AuditLog, search_audit
from content_gateway.ledger.postgres.backend_health import PostgresBackendHealth
from content_gateway.ledger.postgres.backend_kind import claim_backend
from content_gateway.ledger.postgres.contents import PostgresWorkQueue
from content_gateway.ledger.postgres.inspection import inspect
from content_gateway.ledger.postgres.key_activity import PostgresKeyActivity
from content_gateway.ledger.postgres.last_known import PostgresLastKnown
from content_gateway.ledger.postgres.pins import PostgresPins
from content_gateway.ledger.postgres.requestors import Requestors
from content_gateway.ledger.postgres.resyncs import PostgresResyncs
from content_gateway.model.audit import AuditEntry, AuditSearch
from content_gateway.model.pins import Holdings, PinStatus
from content_gateway.postgres.connections import ConnectionPool, PoolOptions
from content_gateway.postgres.group_commit import GroupCommit
from content_gateway.postgres.migrations import Migrations
from content_gateway.postgres.notifications import Listener
from content_gateway.postgres.transactions import Database, Transaction

MIGRATIONS: Final = "content_gateway.ledger.postgres"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server is worked with: at most *connections* to *url* from this process, besides four
    for searches and one that listens; a statement may take *seconds*."""

    url: str
    connections: int = 8
    seconds: float = 5.0


class PostgresLedger:
    """The ledger in one database, open between its entrance and its exit."""

    def __init__(
        self,
        server: ServerOptions,
        options: LedgerOptions,
        clock: Callable[[], float] = time.time,
        *,
        checks: bool = True,
    ) -> None:
        """Without *checks* any version of the schema is opened, for commands on the whole of it."""
        pool = PoolOptions(server.url, "ledger", server.connections, server.seconds)
        self.database = Database(pool)
        self.migrations = Migrations(MIGRATIONS, "ledger")
        # As long as three statements may take: by then a group and its requestors' numbers are
        # written, and one before it, or the server is not to be had.
        self.writes = GroupCommit(patience=3 * server.seconds)
        self._checks = checks
        self._today = lambda: datetime.fromtimestamp(clock(), UTC)
        self._audit = AuditLog(self.database, options.audit_entries)
        self._requestors = Requestors(self.database)
        self.pins = PostgresPins(
            self.database,
            self._requestors,
            self.writes,
            self._audit,
            grace=options.grace,
            clock=clock,
        )
        self.work = PostgresWorkQueue(self.database, grace=options.grace, clock=clock)
        self.resyncs = PostgresResyncs(self.database, clock=clock)
        self.health = PostgresBackendHealth(self.database)
        self.keys = PostgresKeys(self.database, self._requestors, self._audit)
        self._listener: Listener | None = None

    async def __aenter__(self) -> Self:
        """Raises WrongSettings when the database cannot be used, or its schema is not ours."""
        await self.database.__aenter__()
        try:
            if self._checks:
                await self.migrations.check(self.database)
        except BaseException:
            await self.database.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._listener is not None:
            await self._listener.close()
        await self.writes.close()
        await self.database.__aexit__(*exc_info)

    @property
    def pool(self) -> ConnectionPool:
        """The connections of this process, for their numbers."""
        return self.database.connections

    def listen(self, heard: Callable[[], None]) -> None:
        """Have *heard* called when any process has made something due; it may not be, at times."""
        self._listener = Listener(self.database.connections, "LISTEN content_gateway_work", heard)
        self._listener.start()

    def last_known(self) -> PostgresLastKnown:
        """The last known answers, to be opened before the first is asked for."""
        return PostgresLastKnown(self.database, today=self._today)

    def key_activity(self) -> PostgresKeyActivity:
        """Who writes down when keys are used, to be opened before the first is."""
        return PostgresKeyActivity(self.database, self._audit, today=self._today)

    async def claim_backend(self, kind: str) -> None:
        """Say that the contents are at a backend of *kind*, if nobody has said anything yet.

        Raises WrongSettings where they are at another kind, and StorageUnavailable."""
        await claim_backend(self.database, kind)

    async def check_writable(self) -> None:
        """Commit something durably that changes nothing; raises StorageUnavailable."""

        async def job(transaction: Transaction) -> None:
            await transaction.send("UPDATE ledger_schema SET version = version")

        await self.database.transact(job)

    async def inspect(self) -> Inspection:
        """All that can be said of it, at one moment; raises StorageUnavailable."""
        return await inspect(self.database, self.migrations)

    async def recount(self) -> int:
        """Count the pins of all requestors again; of how many the count was wrong. Raises
        StorageUnavailable."""
        return await whole_ledger.recount_pins(self.database)

    async def search_audit(self, search: AuditSearch) -> Sequence[AuditEntry]:
        """A page of the entries that *search* finds, newest first; raises StorageUnavailable."""
        return await search_audit(self.database, search)

    async def holdings_by_key(self) -> Mapping[str, Holdings]:
        """The holdings of each issued key that has pins, by its id; raises StorageUnavailable."""
        return await whole_ledger.holdings_by_key(self.database)

    async def requestor_from(self, least: str) -> str | None:
        """The first requestor with pins in the order of their ids, *least* or behind it; None at
        the end. Raises StorageUnavailable."""
        return await whole_ledger.requestor_from(self.database, least)

    def oldest_first(self, requestor: str) -> AsyncIterator[Sequence[PinStatus]]:
        """All pins of *requestor* in pages, each one moment of the ledger; StorageUnavailable."""
        return whole_ledger.oldest_first(self.database, requestor)
