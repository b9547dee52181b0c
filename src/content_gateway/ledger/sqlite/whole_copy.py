"""A SQLite ledger that is copied as a whole, from or to: ledger/copying.py.

A copy is made in a file beside its place, which it takes when it is complete. Knows how the tables
of this database give the columns of the copy."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from content_gateway.errors import GatewayError
from content_gateway.files.permissions import open_own
from content_gateway.ledger.copying import Row, Table
from content_gateway.ledger.sqlite import backups
from content_gateway.ledger.sqlite.inspection import current_version, version_of
from content_gateway.sqlite.connection import migrate

_PACKAGE: Final = "content_gateway.ledger.sqlite"
_VIEWS: Final = {
    "contents": (
        "(SELECT *, iif(next_at IS NULL, 0, turn_of) AS turn FROM contents)",
        {"turn_of": "turn"},
    ),
}


class SqliteCopy:
    """The ledger at *path*, open between its entrance and its exit; with *is_new*, to be made."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self._place = path
        self._is_new = is_new
        self._path = path.with_name(path.name + ".copying") if is_new else path
        self._connection: sqlite3.Connection

    async def __aenter__(self) -> Self:
        """Raises GatewayError where it cannot be opened, or is there already."""
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.close()

    def _open(self) -> None:
        if self._is_new and self._place.exists():
            raise GatewayError(f"{self._place} is there already.")
        if not self._is_new and not self._place.exists():
            raise GatewayError(f"There is no ledger at {self._place}.")
        if self._is_new and not self._path.exists():
            try:
                os.close(open_own(self._path))  # for its owner alone
            except OSError as wrong:
                raise GatewayError(f"{self._path} cannot be made: {wrong.strerror}.") from wrong
        try:
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False
            )
            if self._is_new:
                migrate(self._connection, _PACKAGE, "ledger")
            elif version_of(self._connection) != current_version():
                raise GatewayError(f"{self._path}: run `content-gateway ledger upgrade` first.")
        except sqlite3.Error as wrong:
            raise GatewayError(f"{self._path} cannot be opened: {wrong}.") from wrong

    async def read(self, table: Table, above: Row | None, limit: int) -> Sequence[Row]:
        """As `Original.read`."""
        if table.name == "pins":  # by the index of each requestor
            return await asyncio.to_thread(self._read_pins, above, limit)
        columns = self._columns(table)
        keys = ", ".join(columns[: table.key])
        marks = ", ".join("?" * table.key)
        where = "" if above is None else f" WHERE ({keys}) > ({marks})"
        source = _VIEWS.get(table.name, (table.name, {}))[0]
        statement = f"SELECT {', '.join(columns)} FROM {source}{where} ORDER BY {keys} LIMIT ?"  # noqa: S608
        return await self._ask(statement, (*(above or ()), limit))

    def _read_pins(self, above: Row | None, limit: int) -> list[Row]:
        rows: list[Row] = []
        number, created_at = above or (0, -1)
        while len(rows) < limit:
            rows += self._connection.execute(
                "SELECT number, created_at, content, spelling, name, folded, origins, meta"
                " FROM requestors JOIN pins USING (requestor)"
                " WHERE number = ? AND created_at > ? ORDER BY created_at LIMIT ?",
                (number, created_at, limit - len(rows)),
            ).fetchall()
            if len(rows) < limit:
                found = self._connection.execute(
                    "SELECT min(number) FROM requestors WHERE number > ?", (number,)
                ).fetchone()
                if found[0] is None:
                    return rows
                number, created_at = found[0], -1
        return rows

    async def last_key(self, table: Table) -> Row | None:
        """As `Copy.last_key`."""
        if table.name == "pins":
            statement = (
                "SELECT number, max(created_at) FROM requestors JOIN pins USING (requestor)"
                " GROUP BY number ORDER BY number DESC LIMIT 1"
            )
        else:
            keys = table.columns[: table.key]
            order = ", ".join(f"{key} DESC" for key in keys)
            statement = f"SELECT {', '.join(keys)} FROM {table.name} ORDER BY {order} LIMIT 1"  # noqa: S608
        rows = await self._ask(statement, ())
        return rows[0] if rows else None

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """As `Copy.write`."""
        await asyncio.to_thread(self._write, table, rows)

    async def finish(self) -> None:
        """As `Copy.finish`."""
        await asyncio.to_thread(self._finish)

    def _write(self, table: Table, rows: Sequence[Row]) -> None:
        marks = ["?"] * len(table.columns)
        if table.name == "pins":
            marks[0] = "(SELECT requestor FROM requestors WHERE number = ?)"
        statement = (
            f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({', '.join(marks)})"  # noqa: S608
        )
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as wrong:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise GatewayError(f"{self._path} cannot be written: {wrong}.") from wrong

    def _finish(self) -> None:
        self._connection.close()
        backups.put(self._path, self._place)

    async def _ask(self, statement: str, values: Row) -> list[Row]:
        try:
            return await asyncio.to_thread(
                lambda: self._connection.execute(statement, values).fetchall()
            )
        except sqlite3.Error as wrong:
            raise GatewayError(f"{self._path} cannot be read: {wrong}.") from wrong

    def _columns(self, table: Table) -> list[str]:
        renamed = _VIEWS.get(table.name, ("", {}))[1]
        return [renamed.get(column, column) for column in table.columns]
