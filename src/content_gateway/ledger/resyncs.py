"""What the resync needs of the ledger, in SQL: a job that one process has the lease of, contents by
number, and reports.

Knows the tables `jobs` and `resyncs` and the numbers of `contents`; what is compared with what is
decided in pins/resync.py."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from content_gateway.ledger.database import LedgerDatabase
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import LedgerEntry, ResyncReport

_KEPT_REPORTS: Final = 100


class SqliteResyncs:
    """The resyncs of one database."""

    def __init__(self, database: LedgerDatabase, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def acquire_job(self, name: str, owner: str, seconds: float, longest: float) -> bool:
        """Whether *owner* may do that work now, alone, for so long; False: not due, or taken.

        It never waits for more than *longest* seconds: more was said by a clock that was wrong."""
        now = self._now()
        values = {"name": name, "owner": owner, "now": now, "until": now + round(seconds * 1000)}
        values["far"] = now + round(longest * 1000)
        return await self._changes(
            "INSERT INTO jobs (name, next_at, lease_owner) VALUES (:name, :until, :owner)"
            " ON CONFLICT (name) DO UPDATE SET next_at = :until, lease_owner = :owner"
            " WHERE next_at <= :now OR next_at > :far",
            values,
        )

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Extend the lease; False if it was lost."""
        values = {"name": name, "owner": owner, "until": self._now() + round(seconds * 1000)}
        return await self._changes(
            "UPDATE jobs SET next_at = :until WHERE name = :name AND lease_owner = :owner", values
        )

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """Give the work back, until it is due again."""
        values = {"name": name, "owner": owner, "next": self._now() + round(again_in * 1000)}
        await self._changes(
            "UPDATE jobs SET next_at = :next, lease_owner = NULL"
            " WHERE name = :name AND lease_owner = :owner",
            values,
        )

    async def trigger_job(self, name: str) -> None:
        """Make the work due now, if nobody does it."""
        await self._changes(
            "UPDATE jobs SET next_at = min(next_at, :now)"
            " WHERE name = :name AND lease_owner IS NULL",
            {"name": name, "now": self._now()},
        )

    async def known(self, cids: Sequence[Cid]) -> Mapping[Cid, LedgerEntry]:
        """What the ledger knows of *cids*, of those that it knows."""
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
        """The next numbers *above* that are pinned for all we know since *before*, ascending."""

        def job(connection: sqlite3.Connection) -> list[int]:
            found = connection.execute(
                "SELECT id FROM contents WHERE id > ? AND state = 'pinned' AND next_at IS NULL"
                # What says that it was pinned in the future was pinned under another clock.
                " AND (updated_at <= ? OR updated_at > ?) ORDER BY id LIMIT ?",
                (above, round(before * 1000), self._now(), limit),
            )
            return [number for (number,) in found]

        return await self._database.search(job, is_ours=True)

    async def recheck(self, numbers: Sequence[int]) -> None:
        """Make final contents due."""
        values = {"now": self._now(), "ids": msgspec.json.encode(numbers).decode()}
        await self._changes(
            # Not the first status check since it was pinned: that one only confirms what was seen
            # then.
            "UPDATE contents SET next_at = :now, status_checks = max(status_checks, 2)"
            " WHERE next_at IS NULL AND state = 'pinned'"
            " AND id IN (SELECT value FROM json_each(:ids))",
            values,
        )

    async def report(self, report: ResyncReport) -> None:
        """Keep what a resync has found; the last hundred are."""
        sample = msgspec.json.encode([str(cid) for cid in report.sample]).decode()
        values = (
            *(round(report.started_at * 1000), round(report.ended_at * 1000)),
            *(report.listed, report.missing, report.unmanaged, sample, report.under_replicated),
        )

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO resyncs (started_at, ended_at, listed, missing, unmanaged, sample,"
                " under_replicated) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            connection.execute(
                "DELETE FROM resyncs WHERE id <= (SELECT max(id) FROM resyncs) - ?",
                (_KEPT_REPORTS,),
            )

        await self._database.write(job)

    def last_report(self) -> ResyncReport | None:
        """What the last resync has found; None if there was none."""
        row = self._database.read(
            lambda connection: connection.execute(
                "SELECT started_at, ended_at, listed, missing, unmanaged, sample, under_replicated"
                " FROM resyncs ORDER BY id DESC LIMIT 1"
            ).fetchone()
        )
        if row is None:
            return None
        started_at, ended_at, listed, missing, unmanaged, sample, under_replicated = row
        cids = tuple(Cid.parse(text) for text in msgspec.json.decode(sample, type=list[str]))
        return ResyncReport(
            *(started_at / 1000, ended_at / 1000, listed, missing, unmanaged, cids),
            under_replicated=under_replicated,
        )

    async def _changes(self, statement: str, values: Mapping[str, object]) -> bool:
        def job(connection: sqlite3.Connection) -> bool:
            return connection.execute(statement, values).rowcount > 0

        return await self._database.write(job)

    def _now(self) -> int:
        return round(self._clock() * 1000)
