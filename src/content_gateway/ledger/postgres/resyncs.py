"""What the resync needs of the ledger, in PostgreSQL: a job lease, contents by number, reports.

Knows the tables `jobs` and `resyncs`, and the numbers of `contents`; pins/resync.py compares."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from content_gateway.ledger.resync_rows import REPORT, report_columns, report_of
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import LedgerEntry, ResyncReport
from content_gateway.postgres.transactions import Database, Transaction

_MAX_REPORTS: Final = 100
_ACQUIRE: Final = (
    "INSERT INTO jobs (name, next_at, lease_owner) VALUES (%(name)s, %(until)s, %(owner)s)"
    " ON CONFLICT (name) DO UPDATE SET next_at = %(until)s, lease_owner = %(owner)s"
    " WHERE jobs.next_at <= %(now)s OR jobs.next_at > %(far)s RETURNING name"
)
# At least 2 checks: the first status check after a pin may use an old listing, this one must ask
# the backend (DecisionRules.max_status_age).
_RECHECK: Final = (
    "UPDATE contents SET status_checks = greatest(status_checks, 2) WHERE id IN"
    " (SELECT id FROM contents WHERE id = ANY(%s::bigint[]) AND state = 'pinned'"
    " AND NOT EXISTS (SELECT 1 FROM work WHERE content = contents.id)"
    " ORDER BY cid FOR NO KEY UPDATE) RETURNING id"
)
_QUEUE: Final = (
    "INSERT INTO work (content, queue, turn_of, due_at)"
    " SELECT one, 1, coalesce((SELECT requestor FROM pins WHERE content = one LIMIT 1), 0), %s"
    " FROM unnest(%s::bigint[]) AS lost(one) ORDER BY one ON CONFLICT (content) DO NOTHING"
)


class PostgresResyncs:
    """The resyncs of one database."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def acquire_job(self, name: str, owner: str, seconds: float, longest: float) -> bool:
        """As `ResyncLedger.acquire_job`."""

        async def job(transaction: Transaction) -> bool:
            # By the time at which it runs: a lease that was given while it waited is not too long.
            now = self._now()
            values = {"name": name, "owner": owner, "now": now}
            values |= {"until": now + round(seconds * 1000), "far": now + round(longest * 1000)}
            return bool(await transaction.ask(_ACQUIRE, values))

        return await self._database.transact(job)

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Extend the lease; False if *owner* has lost it."""
        return await self._changes(
            "UPDATE jobs SET next_at = %s WHERE name = %s AND lease_owner = %s RETURNING name",
            (self._now() + round(seconds * 1000), name, owner),
        )

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """End the lease; the job is due again in *again_in* seconds."""
        await self._changes(
            "UPDATE jobs SET next_at = %s, lease_owner = NULL"
            " WHERE name = %s AND lease_owner = %s RETURNING name",
            (self._now() + round(again_in * 1000), name, owner),
        )

    async def trigger_job(self, name: str) -> None:
        """Make the job due now, unless it is leased."""
        await self._changes(
            "UPDATE jobs SET next_at = least(next_at, %s)"
            " WHERE name = %s AND lease_owner IS NULL RETURNING name",
            (self._now(), name),
        )

    async def known(self, cids: Sequence[Cid]) -> Mapping[Cid, LedgerEntry]:
        """The ledger's entries of those of *cids* that it has."""
        texts = {str(cid): cid for cid in cids}

        async def job(transaction: Transaction) -> dict[Cid, LedgerEntry]:
            found = await transaction.ask(
                "SELECT cid, id, state <> 'unpinning', replicas, wanted FROM contents"
                " WHERE cid = ANY(%s::text[])",
                (list(texts),),
            )
            return {texts[row[0]]: LedgerEntry(*row[1:]) for row in found}

        return await self._database.search(job, is_ours=True)

    async def final_pins(self, above: int, limit: int, before: float) -> Sequence[int]:
        """As `ResyncLedger.final_pins`."""

        async def job(transaction: Transaction) -> list[int]:
            found = await transaction.ask(
                "SELECT id FROM contents WHERE id > %s AND state = 'pinned'"
                " AND NOT EXISTS (SELECT 1 FROM work WHERE content = id)"
                # A time in the future was written by a wrong clock: it counts as before.
                " AND (updated_at <= %s OR updated_at > %s) ORDER BY id LIMIT %s",
                (above, round(before * 1000), self._now(), limit),
            )
            return [number for (number,) in found]

        return await self._database.search(job, is_ours=True)

    async def recheck(self, numbers: Sequence[int]) -> None:
        """Make these contents due, if they are final pins."""

        async def job(transaction: Transaction) -> None:
            lost = [number for (number,) in await transaction.ask(_RECHECK, (list(numbers),))]
            await transaction.send(_QUEUE, (self._now(), lost))

        await self._database.transact(job)

    async def report(self, report: ResyncReport) -> None:
        """Store a report; the last hundred are kept."""

        async def job(transaction: Transaction) -> None:
            await transaction.send(
                f"INSERT INTO resyncs ({REPORT}) VALUES (%s, %s, %s, %s, %s, %s, %s)",  # noqa: S608
                report_columns(report),
            )
            await transaction.send(
                "DELETE FROM resyncs WHERE id <="
                " (SELECT id FROM resyncs ORDER BY id DESC OFFSET %s LIMIT 1)",
                (_MAX_REPORTS,),
            )

        await self._database.transact(job)

    async def last_report(self) -> ResyncReport | None:
        """The last report; None if there is none."""
        rows = await self._database.ask(
            f"SELECT {REPORT} FROM resyncs ORDER BY id DESC LIMIT 1"  # noqa: S608 - constant
        )
        return report_of(rows[0]) if rows else None

    async def _changes(self, statement: str, values: Any) -> bool:
        async def job(transaction: Transaction) -> bool:
            return bool(await transaction.ask(statement, values))

        return await self._database.transact(job)

    def _now(self) -> int:
        return round(self._clock() * 1000)
