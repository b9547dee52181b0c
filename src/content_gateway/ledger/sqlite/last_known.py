"""Last known answers in SQLite: what names pointed at, and where IPNS names led.

Knows the tables `resolutions` and `ipns`. What waits to be written, and for how long, is left to
ledger/last_known.py."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from content_gateway.ledger.last_known import Batch, Row, StoredAnswers, StoreLimits
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.wallet import CoinType

# The newer answer wins, in whatever order two processes write. A time in the future was written by
# a wrong clock; without the second condition that answer would stay for ever.
_STORE_RESOLUTION: Final = """
    INSERT INTO resolutions (domain, coin, wallet, wallet_is_owner, content, stored_at)
    VALUES (:domain, :coin, :wallet, :wallet_is_owner, :content, :stored_at)
    ON CONFLICT DO UPDATE SET wallet = excluded.wallet, content = excluded.content,
        wallet_is_owner = excluded.wallet_is_owner, stored_at = excluded.stored_at
    WHERE stored_at <= excluded.stored_at OR stored_at > :now"""
_FORGET_RESOLUTION: Final = """
    DELETE FROM resolutions WHERE domain = :domain AND coin = :coin
        AND (stored_at <= :stored_at OR stored_at > :now)"""
_STORE_IPNS: Final = """
    INSERT INTO ipns (name, path, record, ttl, stored_at)
    VALUES (:name, :path, :record, :ttl, :stored_at)
    ON CONFLICT DO UPDATE SET path = excluded.path, record = excluded.record,
        ttl = excluded.ttl, stored_at = excluded.stored_at
    WHERE stored_at <= excluded.stored_at OR stored_at > :now"""
_FORGET_IPNS: Final = """
    DELETE FROM ipns WHERE name = :name AND (stored_at <= :stored_at OR stored_at > :now)"""
_PRUNE_RESOLUTIONS: Final = """
    DELETE FROM resolutions WHERE (domain, coin) IN
        (SELECT domain, coin FROM resolutions ORDER BY stored_at DESC LIMIT -1 OFFSET :most)"""
_PRUNE_IPNS: Final = """
    DELETE FROM ipns WHERE name IN
        (SELECT name FROM ipns ORDER BY stored_at DESC LIMIT -1 OFFSET :most)"""


class SqliteLastKnown(StoredAnswers):
    """The last known answers of one database. Open it with `async with`."""

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        bounds: StoreLimits | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(_Tables(database), bounds=bounds, today=today)


class _Tables:
    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    async def resolution(self, domain: str, coin: CoinType) -> Row | None:
        """As `AnswerTables.resolution`."""
        return self._read(
            "SELECT wallet, content, wallet_is_owner, stored_at FROM resolutions"
            " WHERE domain = ? AND coin = ?",
            (domain, coin),
        )

    async def ipns(self, name: str) -> Row | None:
        """As `AnswerTables.ipns`."""
        return self._read("SELECT path, record, ttl, stored_at FROM ipns WHERE name = ?", (name,))

    async def write(self, batch: Batch) -> None:
        """As `AnswerTables.write`."""
        now = {"now": batch.now}

        def job(db: sqlite3.Connection) -> None:
            for statement, rows in (
                (_STORE_RESOLUTION, batch.resolutions),
                (_FORGET_RESOLUTION, batch.forgotten),
                (_STORE_IPNS, batch.ipns),
                (_FORGET_IPNS, batch.forgotten_ipns),
            ):
                for values in rows:
                    db.execute(statement, {**values, **now})
            if batch.keep is not None:
                resolutions, links = batch.keep
                db.execute(_PRUNE_RESOLUTIONS, {"most": resolutions})
                db.execute(_PRUNE_IPNS, {"most": links})

        await self._database.write(job)

    def _read(self, question: str, values: tuple[Any, ...]) -> Row | None:
        row: Row | None = self._database.read(lambda db: db.execute(question, values).fetchone())
        return row
