"""What a client's journal reads of a ledger, by itself: its pins, what is half, and what waits.

One class for each database, with the statements of its tables. Nothing of the service is used, so
that a mistake of its own cannot hide here."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg

from tests.world.postgres import Postgres

_HALVES: Final = (
    "SELECT cid, state FROM contents WHERE (state = 'unpinning')"
    " = EXISTS (SELECT 1 FROM pins WHERE content = id)"
)


class LedgerRows(Protocol):
    """The rows of one ledger."""

    def pins(self) -> list[tuple[str, str | None]]:
        """Requestor and CID of each pin; None for a pin whose content is not there."""

    def halves(self) -> list[tuple[Any, ...]]:
        """Contents without pins, or on their way out with them; and damage of the database."""

    def let_leases_run_out(self) -> None:
        """What half a minute, and for a resync two, would do after a death."""

    def unsettled(self) -> int:
        """How many contents are not pinned yet, for all that is known."""

    def hold_final(self, requestor: str, cids: Sequence[str]) -> None:
        """Put pins of *cids* there that were done long ago; the ledger has none of *requestor*."""


class SqliteRows:
    """Those of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pins(self) -> list[tuple[str, str | None]]:
        """As `LedgerRows.pins`."""
        return self._run("SELECT requestor, cid FROM pins LEFT JOIN contents ON id = content")

    def halves(self) -> list[tuple[Any, ...]]:
        """As `LedgerRows.halves`."""
        damage = [row for row in self._run("PRAGMA integrity_check") if row != ("ok",)]
        return self._run(_HALVES) + damage

    def let_leases_run_out(self) -> None:
        """As `LedgerRows.let_leases_run_out`."""
        self._run("UPDATE contents SET next_at = 0 WHERE lease_owner IS NOT NULL")
        self._run("UPDATE jobs SET next_at = 0 WHERE lease_owner IS NOT NULL")

    def unsettled(self) -> int:
        """As `LedgerRows.unsettled`."""
        waiting = "SELECT count(*) FROM contents WHERE state != 'pinned' OR next_at IS NOT NULL"
        return int(self._run(waiting)[0][0])

    def hold_final(self, requestor: str, cids: Sequence[str]) -> None:
        """As `LedgerRows.hold_final`."""
        with closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
            connection.executemany(
                "INSERT INTO contents (cid, state, replicas, wanted, updated_at)"
                " VALUES (?, 'pinned', 1, 1, 1700000000000)",
                ((cid,) for cid in cids),
            )
            connection.execute(
                "INSERT INTO pins (requestor, content, created_at)"
                " SELECT ?, id, 1700000000000000 + id * 1000 FROM contents",
                (requestor,),
            )

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path, timeout=10, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()


class PostgresRows:
    """Those of a database of *server*."""

    def __init__(self, server: Postgres, database: str) -> None:
        self._server, self._database = server, database

    def pins(self) -> list[tuple[str, str | None]]:
        """As `LedgerRows.pins`."""
        found = self._run(
            "SELECT r.requestor, c.cid FROM pins p JOIN requestors r ON r.number = p.requestor"
            " LEFT JOIN contents c ON c.id = p.content"
        )
        return [(requestor, cid) for requestor, cid in found]

    def halves(self) -> list[tuple[Any, ...]]:
        """As `LedgerRows.halves`."""
        counted = (
            "SELECT requestor, 'counts ' || pins FROM requestors r WHERE pins !="
            " (SELECT count(*) FROM pins p WHERE p.requestor = r.number)"
        )
        return self._run(_HALVES) + self._run(counted)

    def let_leases_run_out(self) -> None:
        """As `LedgerRows.let_leases_run_out`."""
        self._run("UPDATE work SET lease_until = 0, due_at = 0 WHERE lease_owner IS NOT NULL")
        self._run("UPDATE jobs SET next_at = 0 WHERE lease_owner IS NOT NULL")

    def unsettled(self) -> int:
        """As `LedgerRows.unsettled`."""
        waiting = (
            "SELECT count(*) FROM contents WHERE state != 'pinned'"
            " OR id IN (SELECT content FROM work)"
        )
        return int(self._run(waiting)[0][0])

    def hold_final(self, requestor: str, cids: Sequence[str]) -> None:
        """As `LedgerRows.hold_final`."""
        with psycopg.connect(self._server.url_of(self._database)) as connection:
            connection.execute(
                "INSERT INTO contents (cid, state, replicas, wanted, updated_at)"
                " SELECT cid, 'pinned', 1, 1, 1700000000000 FROM unnest(%s::text[]) AS cid",
                (list(cids),),
            )
            connection.execute(
                "INSERT INTO requestors (requestor, pins, last_at)"
                " SELECT %s, count(*), 1700000000000000 + max(id) * 1000 FROM contents",
                (requestor,),
            )
            connection.execute(
                "INSERT INTO pins (requestor, content, created_at)"
                " SELECT (SELECT number FROM requestors), id, 1700000000000000 + id * 1000"
                " FROM contents"
            )

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._server.run(statement, self._database)
