"""Connections to a SQLite file, and its tables brought up to date.

Knows the pragmas that make a commit durable (WAL, synchronous=FULL) and the numbered migrations. It
never creates a file. Which threads write and read is left to database.py."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from content_gateway.errors import WrongSettings
from content_gateway.sqlite.database_files import uri_of

_DEFAULT_CACHE_KIB: Final = 2_000  # SQLite's own default


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How a database file and its WAL are laid out; each connection to it sets the same.

    *page_bytes*, and whether freed pages *can_shrink* the file (auto_vacuum), count for a new file
    only. The WAL file is truncated to *wal_bytes* once all of it was checkpointed. SQLite
    checkpoints within the commit that fills as much, unless the file *has_checkpointer*."""

    has_checkpointer: bool
    wal_bytes: int
    page_bytes: int = 4_096  # SQLite's own default
    can_shrink: bool = False


def connect(
    path: Path,
    file: FileOptions,
    *,
    busy_ms: int,
    cache_kib: int = _DEFAULT_CACHE_KIB,
    reads_only: bool = False,
) -> sqlite3.Connection:
    """A connection to the existing file at *path* that waits *busy_ms* for locks of others.

    Raises sqlite3.Error."""
    connection = sqlite3.connect(
        uri_of(path, reads_only=reads_only), isolation_level=None, check_same_thread=False, uri=True
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    if not reads_only:
        # These two have an effect before the first table only, and before the file is in WAL mode.
        connection.execute(f"PRAGMA page_size = {file.page_bytes}")
        connection.execute(f"PRAGMA auto_vacuum = {'INCREMENTAL' if file.can_shrink else 'NONE'}")
    _use_wal(connection, busy_ms)
    autocheckpoint = 0 if file.has_checkpointer else file.wal_bytes // file.page_bytes
    connection.execute(f"PRAGMA wal_autocheckpoint = {autocheckpoint}")
    connection.execute(f"PRAGMA journal_size_limit = {file.wal_bytes}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    # Else a statement of many rows keeps what a rollback would need in files.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _use_wal(connection: sqlite3.Connection, busy_ms: int) -> None:
    """Switch the database to WAL mode, waiting *busy_ms* for others. Raises sqlite3.Error.

    The busy timeout has no effect here: SQLite gives up where another connection switches too."""
    end = time.monotonic() + busy_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as wrong:
            is_busy = wrong.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > end:
                raise
        time.sleep(0.005)


def migrate(connection: sqlite3.Connection, package: str, name: str) -> None:
    """Run the numbered SQL files in the folder `migrations` of *package* that the database lacks.

    `PRAGMA user_version` counts those that have run. Raises sqlite3.Error, and WrongSettings when
    a newer version of this program has made the database that people call *name*."""
    steps = _migrations(package)
    connection.create_function("casefold", 1, str.casefold)  # SQLite's lower() knows ASCII only
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(steps):
            raise WrongSettings(f"data_dir: the {name} was made by a newer version")
        for number, step in enumerate(steps[version:], version + 1):
            for statement in step:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has rolled back itself
            connection.execute("ROLLBACK")
        raise


@cache
def _migrations(package: str) -> Sequence[Sequence[str]]:
    """The statements of each migration of *package*, in their order; read once a process."""
    files = resources.files(package).joinpath("migrations").iterdir()
    return [_statements(file.read_text()) for file in sorted(files, key=lambda file: file.name)]


def _statements(script: str) -> list[str]:
    # `executescript` would commit our transaction first.
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
