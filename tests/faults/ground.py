"""Where the ledger of a fault's scene is: a file, or a database of a PostgreSQL that loses nothing.

A ground starts services on it, and has the ledger's rows to be read beside them. What is done to
them, and what must come of it, is left to the rows of the table."""

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)
from pathlib import Path
from typing import Final, Protocol

import psycopg

from tests.faults.ledger_rows import LedgerRows, PostgresRows, SqliteRows
from tests.process import COMMAND, Running, running
from tests.workers import with_workers
from tests.world.postgres import Postgres, durable

VERSION: Final = "15"
PROCESSES: Final = 3
OPEN: Final = {"CONTENT_GATEWAY_KEYS__MODE": "open"}
# Where a scene is about something else than the backend.
NOBODY: Final = {
    "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
    "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
}


class Ground(Protocol):
    """One ledger, and the services on it."""

    name: str
    folder: Path
    settings: Mapping[str, str]

    @property
    def rows(self) -> LedgerRows:
        """What is in the ledger."""

    def serving(
        self, settings: Mapping[str, str], program: list[str] = COMMAND
    ) -> AbstractAsyncContextManager[Running]:
        """`content-gateway serve` on it, with open keys unless the *settings* say otherwise."""

    def several(self, settings: Mapping[str, str]) -> AbstractAsyncContextManager[list[str]]:
        """PROCESSES that serve on it, as many as can; the URLs at which they are asked."""

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else can write to the ledger meanwhile."""


class SqliteGround:
    """A file in *folder*. Its processes are the workers of one service."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: Mapping[str, str] = {}
        self.path = folder / "data" / "ledger.sqlite"

    @property
    def rows(self) -> LedgerRows:
        """As `Ground.rows`."""
        return SqliteRows(self.path)

    def serving(
        self, settings: Mapping[str, str], program: list[str] = COMMAND
    ) -> AbstractAsyncContextManager[Running]:
        """As `Ground.serving`."""
        return running("serve", self.folder / "data", {**OPEN, **settings}, program)

    @asynccontextmanager
    async def several(self, settings: Mapping[str, str]) -> AsyncIterator[list[str]]:
        """As `Ground.several`."""
        chosen = {**OPEN, **settings}
        async with with_workers(self.folder / "data", PROCESSES, chosen) as workers:
            yield [workers.service.url]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As `Ground.locked`."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield


class PostgresGround:
    """A new database of *server*. Its processes are services of their own, as on machines."""

    name = "PostgreSQL"

    def __init__(self, folder: Path, server: Postgres) -> None:
        self.folder = folder
        self.server = server
        self.url = server.new_ledger()
        self.database = self.url.rpartition("/")[2]
        self.settings: Mapping[str, str] = {"CONTENT_GATEWAY_DATABASE__URL": self.url}

    @property
    def rows(self) -> LedgerRows:
        """As `Ground.rows`."""
        return PostgresRows(self.server, self.database)

    def serving(
        self, settings: Mapping[str, str], program: list[str] = COMMAND
    ) -> AbstractAsyncContextManager[Running]:
        """As `Ground.serving`."""
        return self.node("data", settings, program)

    @asynccontextmanager
    async def several(self, settings: Mapping[str, str]) -> AsyncIterator[list[str]]:
        """As `Ground.several`."""
        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(self.node(f"node{number}", settings))
                for number in range(PROCESSES)
            ]
            yield [node.url for node in nodes]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """As `Ground.locked`."""
        with psycopg.connect(self.url) as connection:
            connection.execute("LOCK TABLE pins IN ACCESS EXCLUSIVE MODE")
            yield

    def node(
        self, name: str, settings: Mapping[str, str], program: list[str] = COMMAND
    ) -> AbstractAsyncContextManager[Running]:
        """A service on it with its own files in the folder *name*, as on a machine of its own."""
        chosen = {**OPEN, **NOBODY, **self.settings, **settings}
        return running("serve", self.folder / name, chosen, program)


@contextmanager
def ground(database: str, folder: Path) -> Iterator[Ground]:
    """A new ground on *database*: "sqlite" or "postgres"."""
    if database == "sqlite":
        yield SqliteGround(folder)
        return
    with durable(VERSION, max_connections="100") as server:
        yield PostgresGround(folder, server)
