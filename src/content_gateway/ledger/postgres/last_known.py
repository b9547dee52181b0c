"""Last known answers in PostgreSQL: what names pointed at, and where IPNS names led.

Those that are wanted at the same time are read together. Knows the tables `resolutions` and `ipns`.
What waits to be written, and for how long, is left to ledger/last_known.py."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Final

from content_gateway.ledger.last_known import Batch, Row, StoredAnswers, StoreLimits
from content_gateway.model.wallet import CoinType
from content_gateway.postgres.batched_reads import BatchedReads
from content_gateway.postgres.transactions import Database, Transaction

_STORE_RESOLUTION: Final = """
    INSERT INTO resolutions (domain, coin, wallet, wallet_is_owner, content, stored_at)
    VALUES (%(domain)s, %(coin)s, %(wallet)s, %(wallet_is_owner)s, %(content)s, %(stored_at)s)
    ON CONFLICT (domain, coin) DO UPDATE SET wallet = excluded.wallet, content = excluded.content,
        wallet_is_owner = excluded.wallet_is_owner, stored_at = excluded.stored_at
    WHERE resolutions.stored_at <= excluded.stored_at OR resolutions.stored_at > %(now)s"""
_FORGET_RESOLUTION: Final = """
    DELETE FROM resolutions WHERE domain = %(domain)s AND coin = %(coin)s
        AND (stored_at <= %(stored_at)s OR stored_at > %(now)s)"""
_STORE_IPNS: Final = """
    INSERT INTO ipns (name, path, record, ttl, stored_at)
    VALUES (%(name)s, %(path)s, %(record)s, %(ttl)s, %(stored_at)s)
    ON CONFLICT (name) DO UPDATE SET path = excluded.path, record = excluded.record,
        ttl = excluded.ttl, stored_at = excluded.stored_at
    WHERE ipns.stored_at <= excluded.stored_at OR ipns.stored_at > %(now)s"""
_FORGET_IPNS: Final = """
    DELETE FROM ipns WHERE name = %(name)s
        AND (stored_at <= %(stored_at)s OR stored_at > %(now)s)"""
_PRUNE_RESOLUTIONS: Final = """
    DELETE FROM resolutions WHERE (domain, coin) IN
        (SELECT domain, coin FROM resolutions ORDER BY stored_at DESC OFFSET %s)"""
_PRUNE_IPNS: Final = """
    DELETE FROM ipns WHERE name IN (SELECT name FROM ipns ORDER BY stored_at DESC OFFSET %s)"""
_RESOLUTIONS: Final = (
    "SELECT domain, coin, wallet, content, wallet_is_owner, stored_at FROM resolutions"
    " WHERE (domain, coin) IN (SELECT * FROM unnest(%s::text[], %s::bigint[]))"
    " AND domain = ANY(%s::text[])"
)
_ENTRIES: Final = "SELECT name, path, record, ttl, stored_at FROM ipns WHERE name = ANY(%s::text[])"


class PostgresLastKnown(StoredAnswers):
    """The last known answers of one database. Open it with `async with`."""

    def __init__(
        self,
        database: Database,
        *,
        bounds: StoreLimits | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(_Tables(database), bounds=bounds, today=today)


class _Tables:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._resolutions = BatchedReads(self._ask_resolutions)
        self._entries = BatchedReads(self._ask_entries)

    async def resolution(self, domain: str, coin: CoinType) -> Row | None:
        """As `AnswerTables.resolution`."""
        return await self._resolutions.of((domain, int(coin)))

    async def ipns(self, name: str) -> Row | None:
        """As `AnswerTables.ipns`."""
        return await self._entries.of(name)

    async def write(self, batch: Batch) -> None:
        """As `AnswerTables.write`; in the order of the keys, as every process does."""
        by_domain, by_name = itemgetter("domain", "coin"), itemgetter("name")

        async def job(transaction: Transaction) -> None:
            for statement, rows, order in (
                (_STORE_RESOLUTION, batch.resolutions, by_domain),
                (_FORGET_RESOLUTION, batch.forgotten, by_domain),
                (_STORE_IPNS, batch.ipns, by_name),
                (_FORGET_IPNS, batch.forgotten_ipns, by_name),
            ):
                for values in sorted(rows, key=order):
                    await transaction.send(statement, {**values, "now": batch.now})

        await self._database.transact(job)
        if batch.keep is not None:
            await self._prune(*batch.keep)

    async def _prune(self, resolutions: int, links: int) -> None:
        async def job(transaction: Transaction) -> None:
            await transaction.send(_PRUNE_RESOLUTIONS, (resolutions,))
            await transaction.send(_PRUNE_IPNS, (links,))

        await self._database.transact(job)

    async def _ask_resolutions(
        self, asked: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Row]:
        domains = [domain for domain, _ in asked]
        columns = (domains, [coin for _, coin in asked], domains)
        rows = await self._database.ask(_RESOLUTIONS, columns, is_hot=True)
        return {(row[0], row[1]): row[2:] for row in rows}

    async def _ask_entries(self, names: Sequence[str]) -> Mapping[str, Row]:
        return {
            row[0]: row[1:]
            for row in await self._database.ask(_ENTRIES, (list(names),), is_hot=True)
        }
