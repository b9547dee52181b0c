"""The last known health of the pin backend, in PostgreSQL: one row, shared by all processes.

Knows the table `backend_health`. The fields are those of model/backend_health.py; when to store
them is decided by pins/backend_health.py."""

from functools import lru_cache

import msgspec

from content_gateway.model.backend_health import BackendHealth
from content_gateway.postgres.transactions import Database, Transaction


class PostgresBackendHealth:
    """The backend's health in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store(self, health: BackendHealth) -> None:
        """Replace the stored health. Raises StorageUnavailable."""
        encoded = msgspec.json.encode(health).decode()

        async def job(transaction: Transaction) -> None:
            await transaction.send(
                "INSERT INTO backend_health (id, kept) VALUES (1, %s)"
                " ON CONFLICT (id) DO UPDATE SET kept = excluded.kept",
                (encoded,),
            )

        await self._database.transact(job)

    async def last(self) -> BackendHealth | None:
        """The stored health; None without one that this version can read. StorageUnavailable."""
        return await self._database.read(last_health)


async def last_health(transaction: Transaction) -> BackendHealth | None:
    """As `PostgresBackendHealth.last`, within a transaction."""
    rows = await transaction.ask("SELECT kept FROM backend_health WHERE id = 1")
    return _decode(rows[0][0]) if rows else None


@lru_cache(maxsize=2)
def _decode(encoded: str) -> BackendHealth | None:
    try:
        return msgspec.json.decode(encoded, type=BackendHealth)
    except msgspec.DecodeError:
        return None
