"""The last known health of the pin backend, in SQL: one row, shared by all processes.

Knows the table `backend_health`. The fields are those of model/backend_health.py; when to store
them is decided by pins/backend_health.py."""

import sqlite3
from functools import lru_cache

import msgspec

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.backend_health import BackendHealth


class SqliteBackendHealth:
    """The backend's health in one database."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    async def store(self, health: BackendHealth) -> None:
        """Replace the stored health. Raises StorageUnavailable."""
        encoded = msgspec.json.encode(health).decode()

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO backend_health (id, kept) VALUES (1, ?)"
                " ON CONFLICT (id) DO UPDATE SET kept = excluded.kept",
                (encoded,),
            )

        await self._database.write(job)

    async def last(self) -> BackendHealth | None:
        """The stored health; None without one that this version can read. StorageUnavailable."""
        return self._database.read(last_health)


def last_health(connection: sqlite3.Connection) -> BackendHealth | None:
    """As `SqliteBackendHealth.last`, within a transaction."""
    row = connection.execute("SELECT kept FROM backend_health WHERE id = 1").fetchone()
    return None if row is None else _decode(row[0])


@lru_cache(maxsize=2)
def _decode(encoded: str) -> BackendHealth | None:
    try:
        return msgspec.json.decode(encoded, type=BackendHealth)
    except msgspec.DecodeError:
        return None
