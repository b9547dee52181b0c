"""A ledger in PostgreSQL that is copied as a whole, from or to: ledger/copying.py.

While a copy is made no service opens it (`ledger_schema.least`). Knows how the tables of this
database give the columns of the copy."""

from collections.abc import Sequence
from typing import Any, Final, Self

import psycopg

from content_gateway.errors import GatewayError
from content_gateway.ledger.copying import Row, Table
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.content_state import SLOW_AFTER_ATTEMPTS
from content_gateway.postgres.errors import refusal
from content_gateway.postgres.transactions import Transaction

_SECONDS: Final = 3_600.0
_COPYING: Final = 1_000_000  # as the least version of a program: none may open it
_CONTENTS: Final = (
    "(SELECT contents.*, CASE WHEN lease_owner IS NULL THEN due_at ELSE lease_until END AS next_at,"
    " coalesce(turn_of, 0) AS turn_of FROM contents LEFT JOIN work ON content = id) AS contents"
)
_AS_NUMBER: Final = frozenset({"is_operator"})
_NUMBERED: Final = {"requestors": "number", "contents": "id", "audit": "id", "resyncs": "id"}


class PostgresCopy:
    """The ledger in one database, open between its entrance and its exit; with *is_new*, empty or
    a copy that was begun."""

    def __init__(self, server: ServerOptions, *, is_new: bool = False) -> None:
        self._ledger = PostgresLedger(server, LedgerOptions(), checks=False)
        self._is_new = is_new

    async def __aenter__(self) -> Self:
        """Raises WrongSettings where it cannot be opened, GatewayError where it is no copy."""
        await self._ledger.__aenter__()
        try:
            await self._check()
        except BaseException:
            await self._ledger.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._ledger.__aexit__(*exc_info)

    async def _check(self) -> None:
        database, migrations = self._ledger.database, self._ledger.migrations
        found = await migrations.found(database)
        is_begun = found.least == _COPYING
        if not self._is_new:
            if is_begun or found.version != migrations.current:
                raise GatewayError(
                    "That ledger is a copy that is not complete, or of another version: run"
                    " `content-gateway ledger upgrade`."
                )
            return
        if found.version and not is_begun:
            raise GatewayError("There is a ledger in that database already.")
        if not found.version:
            await migrations.upgrade(database)
            await self._set_least(_COPYING)

    async def _set_least(self, least: int) -> None:
        async def job(transaction: Transaction) -> None:
            await transaction.send("UPDATE ledger_schema SET least = %s", (least,))

        await self._ledger.database.transact(job)

    async def read(self, table: Table, above: Row | None, limit: int) -> Sequence[Row]:
        """As `Original.read`."""
        keys = ", ".join(table.columns[: table.key])
        marks = ", ".join(["%s"] * table.key)
        where = "" if above is None else f" WHERE ({keys}) > ({marks})"
        source = _CONTENTS if table.name == "contents" else table.name
        columns = ", ".join(
            f"{column}::integer" if column in _AS_NUMBER else column for column in table.columns
        )
        statement = f"SELECT {columns} FROM {source}{where} ORDER BY {keys} LIMIT %s"  # noqa: S608

        async def job(transaction: Transaction) -> list[Row]:
            return await transaction.ask(statement, (*(above or ()), limit))

        return await self._ledger.database.search(job, seconds=_SECONDS, is_ours=True)

    async def last_key(self, table: Table) -> Row | None:
        """As `Copy.last_key`."""
        keys = table.columns[: table.key]
        order = ", ".join(f"{key} DESC" for key in keys)
        rows = await self._ledger.database.ask(
            f"SELECT {', '.join(keys)} FROM {table.name} ORDER BY {order} LIMIT 1"  # noqa: S608
        )
        return rows[0] if rows else None

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """As `Copy.write`."""
        columns, work = list(table.columns), list[Row]()
        if table.name == "contents":
            work = [entry for row in rows if (entry := _work_of(table, row)) is not None]
            columns, rows = columns[:-2], [row[:-2] for row in rows]
        if table.name == "audit":
            rows = [(*row[:3], bool(row[3]), *row[4:]) for row in rows]
        connections = self._ledger.database.connections
        try:
            async with (
                connections.one("written", _SECONDS) as connection,
                connection.transaction(),
            ):
                await connection.execute("SET LOCAL statement_timeout = 0")
                await _load(connection, table.name, columns, rows)
                work_columns = ["content", "queue", "turn_of", "due_at", "is_release"]
                await _load(connection, "work", work_columns, work)
        except psycopg.Error as wrong:
            raise refusal(wrong, "copy", "written") from wrong

    async def finish(self) -> None:
        """As `Copy.finish`: numbers go on where the original's do, and services may open it."""

        async def job(transaction: Transaction) -> None:
            for table, column in _NUMBERED.items():
                await transaction.send(
                    f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"  # noqa: S608
                    f" greatest((SELECT max({column}) FROM {table}), 1),"
                    f" EXISTS (SELECT 1 FROM {table}))"
                )
            await transaction.send(
                "UPDATE requestors SET last_at = (SELECT max(created_at) FROM pins"
                " WHERE pins.requestor = number)"
            )

        await self._ledger.database.transact(job)
        await self._set_least(self._ledger.migrations.current)


async def _load(
    connection: psycopg.AsyncConnection[Any],
    table: str,
    columns: Sequence[str],
    rows: Sequence[Row],
) -> None:
    async with connection.cursor() as cursor:
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        async with cursor.copy(statement.encode()) as copy:
            for row in rows:
                await copy.write_row(row)


def _work_of(table: Table, row: Row) -> Row | None:
    """The row of `work` for a content; None where nothing is to be done."""
    one = dict(zip(table.columns, row, strict=True))
    if one["next_at"] is None:
        return None
    attempts, checks = one["attempts"], one["status_checks"]
    queue = int(attempts + checks > 0) + int(attempts > SLOW_AFTER_ATTEMPTS)
    return one["id"], queue, one["turn_of"], one["next_at"], one["state"] == "unpinning"
