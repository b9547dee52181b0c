"""The word that is left of the pin backend, in SQL: one row, for every process of the ledger.

Knows the table `backend_health`. What the word says, model/backend_health.py knows, and when it
is left pins/backend_health.py."""

import sqlite3
from functools import lru_cache

import msgspec

from content_gateway.ledger.database import LedgerDatabase
from content_gateway.model.backend_health import BackendHealth


class SqliteBackendHealth:
    """The word of one database."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    async def store(self, health: BackendHealth) -> None:
        """Leave word; it takes the place of the last. Raises StorageUnavailable."""
        kept = msgspec.json.encode(health).decode()

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO backend_health (id, kept) VALUES (1, ?)"
                " ON CONFLICT (id) DO UPDATE SET kept = excluded.kept",
                (kept,),
            )

        await self._database.write(job)

    def last(self) -> BackendHealth | None:
        """The last word; None if there is none, or it is of a version that we cannot read. Raises
        StorageUnavailable."""
        return self._database.read(last_word)


def last_word(connection: sqlite3.Connection) -> BackendHealth | None:
    """The last word that was left."""
    row = connection.execute("SELECT kept FROM backend_health WHERE id = 1").fetchone()
    return None if row is None else _understood(row[0])


@lru_cache(maxsize=2)
def _understood(kept: str) -> BackendHealth | None:
    try:
        return msgspec.json.decode(kept, type=BackendHealth)
    except msgspec.DecodeError:
        return None
