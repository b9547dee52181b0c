"""Where a ledger stands in tests: each database that has an adapter, and what is in it.

A stand opens any number of ledgers on one database, as processes do, on a clock that tests move."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.ledger.sqlite.ledger import SqliteLedger
from content_gateway.wiring.ledgers import Ledger
from tests.ledgers import GRACE, Held
from tests.world import postgres


class Opened(Ledger, Protocol):
    """A ledger whose pins tests can ask for."""

    @property
    def pins(self) -> Held:
        """The requestors' pins."""


class Stand(Protocol):
    """One database."""

    def ledger(
        self, clock: Callable[[], float], *, grace: float = GRACE, entries: int = 1_000
    ) -> AbstractAsyncContextManager[Opened]:
        """A ledger on it; *entries* of the audit log are kept."""

    async def run(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of *statement*, which both databases understand."""


class SqliteStand:
    """A file in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.sqlite"

    def ledger(
        self, clock: Callable[[], float], *, grace: float = GRACE, entries: int = 1_000
    ) -> AbstractAsyncContextManager[Opened]:
        """As `Stand.ledger`."""
        return SqliteLedger(self._path, LedgerOptions(grace, entries), clock)

    async def run(self, statement: str) -> list[tuple[Any, ...]]:
        """As `Stand.run`."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()


class PostgresStand:
    """A new database of the *server* of this process; one that *is_empty* has no tables."""

    def __init__(self, server: postgres.Postgres, *, is_empty: bool = False) -> None:
        self._server = server
        self.url = server.url_of(server.new_database()) if is_empty else server.new_ledger()

    def ledger(
        self, clock: Callable[[], float], *, grace: float = GRACE, entries: int = 1_000
    ) -> AbstractAsyncContextManager[Opened]:
        """As `Stand.ledger`."""
        return PostgresLedger(ServerOptions(self.url), LedgerOptions(grace, entries), clock)

    async def run(self, statement: str) -> list[tuple[Any, ...]]:
        """As `Stand.run`."""
        database = self.url.rpartition("/")[2]
        return await asyncio.to_thread(self._server.run, statement, database)


def stand_of(adapter: str, folder: Path) -> Stand:
    """A new stand of *adapter*; the test skips where its database is not installed."""
    if adapter == "sqlite":
        return SqliteStand(folder)
    return PostgresStand(postgres.shared(adapter.removeprefix("postgres-")))


ADAPTERS: Final = [
    "sqlite",
    "postgres-15",
    # The newest too, in `make test-deep`: there is nothing in it that the other has not.
    pytest.param("postgres-18", marks=pytest.mark.deep),
]
