"""Copies of a SQLite file: taken while others write it, and checked before anybody relies on them.

Knows SQLite's online backup, which reads one snapshot and blocks no writer of a file in WAL mode
(sqlite.org/backup.html, wal.html), and `PRAGMA integrity_check`. Which file, what must be in it and
where the copy goes are left to whoever asks."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from content_gateway.files.disk import is_read_only
from content_gateway.sqlite.database_files import uri_of

MOST_PROBLEMS: Final = 20
_BUSY_MS: Final = 5_000


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads the existing file at *path*, and closes; raises sqlite3.Error."""
    uri = uri_of(path, reads_only=True)
    if is_read_only(path.parent) and not path.with_name(path.name + "-wal").exists():
        # Where nobody can write, SQLite cannot make the files beside it that readers share.
        uri += "&immutable=1"
    with closing(sqlite3.connect(uri, isolation_level=None, uri=True)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection in a transaction that changes the existing file at *path*, beside others that
    write; on disk at the end, or undone where that is an error. Raises sqlite3.Error."""
    with closing(sqlite3.connect(uri_of(path), isolation_level=None, uri=True)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def copy(source: Path, target: Path) -> None:
    """Make *target* (which must be missing; for us alone, 0600) a copy of the database *source* as
    it is at one moment, on disk when this returns.

    The copy is one file, without a WAL. Nothing is left of it where that fails. Raises OSError and
    sqlite3.Error."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with read_only(source) as read, closing(sqlite3.connect(target)) as written:
            # All pages in one step: in several, another process's commit would begin it again.
            read.backup(written, pages=-1)
            written.execute("PRAGMA journal_mode = DELETE")
        sync(target)
    except BaseException:
        remove(target)
        raise


def checkpoint(path: Path) -> None:
    """Bring what the WAL of the database *path* holds into it, on disk; nobody else has it open.

    Raises sqlite3.Error."""
    with closing(sqlite3.connect(uri_of(path), isolation_level=None, uri=True)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def remove(path: Path) -> None:
    """Delete a database that nobody has open, and what SQLite leaves beside it."""
    for end in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).unlink()


def sync(path: Path) -> None:
    """Have what *path*, a file or a folder, holds on disk; raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def problems(connection: sqlite3.Connection) -> list[str]:
    """What `PRAGMA integrity_check` finds, the first MOST_PROBLEMS of it; [] for a sound file.

    Raises sqlite3.Error where too little is left of it to be checked."""
    rows = connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall()
    return [text for (text,) in rows if text != "ok"]
