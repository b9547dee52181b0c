"""What the resync needs of the ledger, in SQL: a job lease, contents by number, and reports.

Knows the tables `jobs` and `resyncs`, and the numbers of `contents`; pins/resync.py compares."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from content_gateway.ledger.resync_rows import REPORT, report_columns, report_of
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import LedgerEntry, ResyncReport

_MAX_REPORTS: Final = 100


class SqliteResyncs:
    """The resyncs of one database."""

    def __init__(self, database: LedgerDatabase, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def acquire_job(self, name: str, owner: str, seconds: float, longest: float) -> bool:
        """As `ResyncLedger.acquire_job`."""

        def job(connection: sqlite3.Connection) -> bool:
            # By the time at which it runs: a lease that was given while it waited is not too long.
            now = self._now()
            values = {"name": name, "owner": owner, "now": now}
            values |= {"until": now + round(seconds * 1000), "far": now + round(longest * 1000)}
            changed = connection.execute(
                "INSERT INTO jobs (name, next_at, lease_owner) VALUES (:name, :until, :owner)"
                " ON CONFLICT (name) DO UPDATE SET next_at = :until, lease_owner = :owner"
                " WHERE next_at <= :now OR next_at > :far",
                values,
            )
            return changed.rowcount > 0

        return await self._database.write(job)

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Extend the lease; False if *owner* has lost it."""
        values = {"name": name, "owner": owner, "until": self._now() + round(seconds * 1000)}
        return await self._changes(
            "UPDATE jobs SET next_at = :until WHERE name = :name AND lease_owner = :owner", values
        )

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """End the lease; the job is due again in *again_in* seconds."""
        values = {"name": name, "owner": owner, "next": self._now() + round(again_in * 1000)}
        await self._changes(
            "UPDATE jobs SET next_at = :next, lease_owner = NULL"
            " WHERE name = :name AND lease_owner = :owner",
            values,
        )

    async def trigger_job(self, name: str) -> None:
        """Make the job due now, unless it is leased."""
        await self._changes(
            "UPDATE jobs SET next_at = min(next_at, :now)"
            " WHERE name = :name AND lease_owner IS NULL",
            {"name": name, "now": self._now()},
        )

    async def known(self, cids: Sequence[Cid]) -> Mapping[Cid, LedgerEntry]:
        """The ledger's entries of those of *cids* that it has."""
        texts = {str(cid): cid for cid in cids}
        values = (msgspec.json.encode(list(texts)).decode(),)

        def job(connection: sqlite3.Connection) -> dict[Cid, LedgerEntry]:
            found = connection.execute(
                "SELECT cid, id, state != 'unpinning', replicas, wanted FROM contents"
                " WHERE cid IN (SELECT value FROM json_each(?))",
                values,
            )
            return {
                texts[text]: LedgerEntry(number, bool(is_held), replicas, wanted)
                for text, number, is_held, replicas, wanted in found
            }

        return await self._database.search(job, is_ours=True)

    async def final_pins(self, above: int, limit: int, before: float) -> Sequence[int]:
        """As `ResyncLedger.final_pins`."""

        def job(connection: sqlite3.Connection) -> list[int]:
            found = connection.execute(
                "SELECT id FROM contents WHERE id > ? AND state = 'pinned' AND next_at IS NULL"
                # A time in the future was written by a wrong clock: it counts as before.
                " AND (updated_at <= ? OR updated_at > ?) ORDER BY id LIMIT ?",
                (above, round(before * 1000), self._now(), limit),
            )
            return [number for (number,) in found]

        return await self._database.search(job, is_ours=True)

    async def recheck(self, numbers: Sequence[int]) -> None:
        """Make these contents due, if they are final pins."""
        values = {"now": self._now(), "ids": msgspec.json.encode(numbers).decode()}
        await self._changes(
            # At least 2: the first status check after a pin may use an old listing, this one must
            # ask the backend (DecisionRules.max_status_age).
            "UPDATE contents SET next_at = :now, status_checks = max(status_checks, 2)"
            " WHERE next_at IS NULL AND state = 'pinned'"
            " AND id IN (SELECT value FROM json_each(:ids))",
            values,
        )

    async def report(self, report: ResyncReport) -> None:
        """Store a report; the last hundred are kept."""
        values = report_columns(report)

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"INSERT INTO resyncs ({REPORT}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                values,
            )
            connection.execute(
                "DELETE FROM resyncs WHERE id <= (SELECT max(id) FROM resyncs) - ?",
                (_MAX_REPORTS,),
            )

        await self._database.write(job)

    async def last_report(self) -> ResyncReport | None:
        """The last report; None if there is none."""
        row = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {REPORT} FROM resyncs ORDER BY id DESC LIMIT 1"  # noqa: S608 - constant
            ).fetchone()
        )
        return None if row is None else report_of(row)

    async def _changes(self, statement: str, values: Mapping[str, object]) -> bool:
        def job(connection: sqlite3.Connection) -> bool:
            return connection.execute(statement, values).rowcount > 0

        return await self._database.write(job)

    def _now(self) -> int:
        return round(self._clock() * 1000)
