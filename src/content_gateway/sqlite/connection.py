"""Connections to the embedded database, and its tables brought up to date.

Knows how SQLite is set up so that a commit is durable (WAL, synchronous=FULL), that nothing is
opened which is not there, and the numbered migrations. Who writes and who reads is left to
database.py."""

import sqlite3
from importlib import resources
from pathlib import Path
from typing import Final

from content_gateway.errors import WrongSettings
from content_gateway.sqlite.database_files import uri_of, use_wal

_LOG_BYTES: Final = 64 * 1024 * 1024  # what a large write has made of the log is given back


def connect(path: Path, busy_ms: int, *, reads_only: bool = False) -> sqlite3.Connection:
    """A connection to the file at *path*, which is not made, that waits *busy_ms* for others.

    Raises sqlite3.Error."""
    connection = sqlite3.connect(
        uri_of(path, reads_only=reads_only), isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    use_wal(connection, busy_ms)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # checkpointer.py does it, and says why
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the numbered migrations that the file lacks (`PRAGMA user_version` counts them).

    Raises WrongSettings when a newer version of this program has made the file."""
    steps = sorted(
        (
            step
            for step in resources.files("content_gateway.ledger").joinpath("migrations").iterdir()
        ),
        key=lambda step: step.name,
    )
    connection.create_function("casefold", 1, str.casefold)  # SQLite's lower() knows ASCII only
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(steps):
            raise WrongSettings("data_dir: the ledger was made by a newer version")
        for number, step in enumerate(steps[version:], version + 1):
            for statement in _statements(step.read_text()):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
