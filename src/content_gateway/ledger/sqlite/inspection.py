"""What a file that should be a ledger is: whether it is one, of which version, and whether it is
sound.

Knows the tables. Reads only, on a connection that it is given;
which file that is, and what follows from the findings, is left to the commands."""

import sqlite3
from importlib import resources
from typing import Final

from content_gateway.errors import GatewayError
from content_gateway.ledger.inspection import (
    CONTRADICTIONS,
    SAMPLE,
    Contradiction,
    Finding,
    Inspection,
    miscounted,
)
from content_gateway.ledger.sqlite.requestors import PINS_OF_REQUESTOR
from content_gateway.sqlite.backup import problems

_TABLES: Final = frozenset({"api_keys", "pins", "contents"})
_CONTRADICTIONS: Final = (*CONTRADICTIONS, miscounted(PINS_OF_REQUESTOR))


def version_of(connection: sqlite3.Connection) -> int:
    """The schema's version of the ledger that *connection* reads.

    Raises GatewayError when it is no ledger or of a newer version than this program, and
    sqlite3.Error."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < 1 or not tables >= _TABLES:
        raise GatewayError("It is no ledger.")
    if version > current_version():
        raise GatewayError("It was made by a newer version of this program.")
    return int(version)


def current_version() -> int:
    """The version of the schema that this program has."""
    folder = resources.files("content_gateway.ledger.sqlite").joinpath("migrations")
    return sum(step.name.endswith(".sql") for step in folder.iterdir())


def inspect(connection: sqlite3.Connection) -> Inspection:
    """All that can be said of the ledger that *connection* reads, as it is at one moment.

    Raises as `version_of` does."""
    connection.execute("BEGIN")
    try:
        version, current = version_of(connection), current_version()
        broken = tuple(Finding(text, 1, ()) for text in problems(connection))
        if version != current:
            return Inspection(version, current, None, None, None, broken, bool(broken))
        keys, pins, contents = (
            _count(connection, name) for name in ("api_keys", "pins", "contents")
        )
        findings = (_found(connection, each) for each in _CONTRADICTIONS)
        found = tuple(finding for finding in findings if finding is not None)
        return Inspection(version, current, keys, pins, contents, broken + found, bool(broken))
    finally:
        connection.execute("ROLLBACK")


def _found(connection: sqlite3.Connection, wrong: Contradiction) -> Finding | None:
    (count,) = connection.execute(f"SELECT count(*) FROM ({wrong.query})").fetchone()  # noqa: S608
    if not count:
        return None
    rows = connection.execute(f"{wrong.query} LIMIT {SAMPLE}").fetchall()
    return Finding(wrong.words, count, tuple(str(text) for (text,) in rows), wrong.remedy)


def _count(connection: sqlite3.Connection, table: str) -> int:
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return int(count)
