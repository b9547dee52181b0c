"""The ledger's work queue in SQL: leases, outcomes and due times of contents, and reports on them.

Knows the table `contents`. A lease is a row with an owner and a time in the future; a writer whose
lease has expired, or whose generation is old, changes nothing. What an event leads to is said by
model/content_state.py, and when to check again by the reconciler."""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.content_rows import outcome_columns, waiting_of
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.due_times import DueTimes, due_now, shorten_waits
from content_gateway.ledger.sqlite.leasing import Leasing, any_queue_due
from content_gateway.ledger.sqlite.requestors import assign_to_shortest_queue
from content_gateway.model.backlog import PENDING, Backlog, Waiting
from content_gateway.model.content_state import (
    ContentState,
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
    WorkItem,
    after,
)

T = TypeVar("T")

_REPORT_TIMEOUT: Final = 120.0
_OURS: Final = "id = :id AND lease_owner = :owner AND generation = :generation"


class SqliteWorkQueue:
    """The work queue of one database; released contents stay for *grace* seconds."""

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        grace: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._grace = grace
        self._clock = clock

    async def any_due(self, quota: LeaseQuota) -> bool:
        """Whether something that *quota* allows seems to be due. It may be gone by now."""
        now = self._now()
        return self._database.read(lambda connection: any_queue_due(connection, now, quota))

    async def waiting_requestors(self, limit: int) -> Sequence[int]:
        """At most *limit* requestors, by number, that have contents in a queue."""
        line = "SELECT DISTINCT requestor FROM turns LIMIT ?"
        return self._database.read(
            lambda connection: [number for (number,) in connection.execute(line, (limit,))]
        )

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """As `WorkQueue.lease`."""

        def job(connection: sqlite3.Connection) -> Leasing:
            now = self._now()
            leasing = Leasing(connection, owner, now, now + round(seconds * 1000), quota)
            leasing.run()
            return leasing

        while True:
            # A transaction reads a bounded number of lines. If all were empty, read the next ones.
            leasing = await self._database.write(job)
            if leasing.items or leasing.is_complete:
                return leasing.items

    async def renew(self, owner: str, items: Iterable[WorkItem], seconds: float) -> set[int]:
        """As `WorkQueue.renew`."""
        until = self._now() + round(seconds * 1000)
        known = {item.id: item.generation for item in items}

        def job(connection: sqlite3.Connection) -> set[int]:
            held = set()
            for number, generation in known.items():
                row = connection.execute(
                    "UPDATE contents SET next_at = max(next_at, ?) WHERE id = ? AND lease_owner = ?"
                    " RETURNING generation",
                    (until, number, owner),
                ).fetchone()
                if row is not None and row[0] == generation:
                    held.add(number)
            return held

        return await self._database.write(job)

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases. The contents are due now; released ones when their lease
        ends, as their due time may be that of the grace period."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE contents SET lease_owner = NULL, next_at ="
                " CASE WHEN state = 'unpinning' THEN next_at ELSE ? END WHERE lease_owner = ?",
                (now, owner),
            )

        await self._database.write(job)

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        """As `WorkQueue.rebase`, but for the wait of a released content: the grace period."""
        now, last = self._now(), 0
        shift = partial(shorten_waits, now=now, seconds=back)
        # In steps, so that other writers get in between.
        while back and (end := await self._database.write(partial(shift, above=last))) > last:
            last = end

        # By the time at which each runs: it may have waited for longer than a lease is.
        def due_times() -> DueTimes:
            return DueTimes(
                self._now(), longest=longest, grace=self._grace, lease=lease, is_step=back > 0
            )

        def rebase(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
            due_times().rebase(connection, numbers=numbers)

        while numbers := await self._database.search(lambda c: due_times().far(c), is_ours=True):
            await self._database.write(partial(rebase, numbers=numbers))
        while await self._database.write(lambda c: due_times().requeue(c)):
            pass

    async def begin(
        self,
        owner: str,
        item: WorkItem,
        last_request: LastRequest,
        event: Event | None,
        *,
        though_held: bool = False,
    ) -> WorkItem | None:
        """As `WorkQueue.begin`."""
        now = self._now()
        state = item.state if event is None else after(item.state, event)
        values = _key(owner, item) | {"last_request": last_request, "now": now, "state": state}
        values["though_held"] = though_held

        def job(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(
                "UPDATE contents SET last_request = :last_request, requested_at = :now,"  # noqa: S608
                f" state = :state, blocks = 0, size = 0"
                f" WHERE {_OURS} AND (:last_request = 'pin' OR :though_held"
                " OR NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id))",
                values,
            )
            return changed.rowcount > 0

        if state is None or not await self._database.write(job):
            return None
        return replace(item, state=state, last_request=last_request, requested_at=now / 1000)

    async def progress(self, owner: str, item: WorkItem, blocks: int, size: int) -> None:
        """Record that the content is being fetched, and how far that is."""
        state = after(item.state, Event.SEEN_PINNING)
        values = _key(owner, item) | {"blocks": blocks, "size": size, "state": state}

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE contents SET state = :state, blocks = :blocks, size = :size"  # noqa: S608
                f" WHERE {_OURS}",
                values,
            )

        await self._database.write(job)

    async def record_outcomes(
        self, owner: str, outcomes: Sequence[tuple[WorkItem, Outcome]]
    ) -> None:
        """As `WorkQueue.record_outcomes`, in one transaction. If the generation of a content has
        changed, it is due again instead."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> None:
            for item, outcome in outcomes:
                if not _record(connection, owner, item, outcome, now):
                    connection.execute(
                        "UPDATE contents SET lease_owner = NULL, next_at ="
                        " CASE WHEN state = 'unpinning' THEN next_at ELSE ? END"
                        " WHERE id = ? AND lease_owner = ?",
                        (now, item.id, owner),
                    )

        await self._database.write(job)

    async def trigger(self, numbers: Sequence[int]) -> None:
        """Make those of these contents due now that are held and not leased."""
        await self._database.write(partial(due_now, numbers=numbers, now=self._now()))

    async def expedite(self) -> None:
        """Make all that waits due now, in several transactions, so that others can write in
        between."""
        now, last = self._now(), 0
        while (
            end := await self._database.write(
                partial(shorten_waits, above=last, now=now, seconds=None)
            )
        ) > last:
            last = end

    async def counts(self) -> Mapping[ContentState, int]:
        """How many contents are in each state. Scans the whole table."""

        def job(connection: sqlite3.Connection) -> dict[ContentState, int]:
            found = connection.execute("SELECT state, count(*) FROM contents GROUP BY state")
            return {ContentState(state): number for state, number in found}

        return await self._report(job)

    async def backlog(self, since: datetime) -> Backlog:
        """How many contents want reconciling. Those that failed after *since* are not due."""
        values = {"now": self._now(), "since": milliseconds(since)}

        def job(connection: sqlite3.Connection) -> Backlog:
            rows = connection.execute(
                "SELECT state, count(*), count(lease_owner), sum(next_at <= :now"
                " AND (state != 'failed' OR requested_at IS NULL OR requested_at < :since"
                " OR requested_at > :now))"  # by a clock that was wrong
                " FROM contents WHERE next_at IS NOT NULL GROUP BY state",
                values,
            ).fetchall()
            by_state = {ContentState(row[0]): row[1] for row in rows}
            return Backlog(by_state, sum(row[2] for row in rows), sum(row[3] for row in rows))

        return await self._report(job)

    async def reasons(self, limit: int) -> Mapping[str | None, int]:
        """The *limit* most frequent reasons why promised contents are not pinned, None for none."""
        states = msgspec.json.encode([*PENDING, ContentState.FAILED]).decode()

        def job(connection: sqlite3.Connection) -> dict[str | None, int]:
            found = connection.execute(
                "SELECT error, count(*) AS number FROM contents WHERE next_at IS NOT NULL"
                " AND state IN (SELECT value FROM json_each(?))"
                " GROUP BY error ORDER BY number DESC LIMIT ?",
                (states, limit),
            )
            return dict(found.fetchall())

        return await self._report(job)

    async def waiting(
        self, limit: int, states: Collection[ContentState] = (*PENDING, ContentState.FAILED)
    ) -> Sequence[Waiting]:
        """At most *limit* contents that are promised and in one of *states*, those that have been
        in it the longest first."""
        wanted = msgspec.json.encode([*states]).decode()

        def job(connection: sqlite3.Connection) -> list[Waiting]:
            rows = connection.execute(
                "SELECT cid, state, updated_at, attempts, error,"
                " CASE WHEN lease_owner IS NULL THEN next_at END FROM contents"
                " WHERE next_at IS NOT NULL AND state IN (SELECT value FROM json_each(?))"
                " ORDER BY updated_at LIMIT ?",
                (wanted, limit),
            )
            return [waiting_of(row) for row in rows]

        return await self._report(job)

    async def _report(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """What *job* returns, a search of the operator's: no requestor is charged for it."""
        return await self._database.search(job, seconds=_REPORT_TIMEOUT, is_ours=True)

    def _now(self) -> int:
        return round(self._clock() * 1000)


def _record(
    connection: sqlite3.Connection, owner: str, item: WorkItem, outcome: Outcome, now: int
) -> bool:
    """Write one outcome; False if the lease is lost or the generation has changed."""
    columns, values = outcome_columns(item, outcome, now), _key(owner, item)
    if columns is None:
        gone = connection.execute(
            f"DELETE FROM contents WHERE {_OURS}"  # noqa: S608 - constant
            " AND NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id)",
            values,
        )
        return gone.rowcount > 0
    values |= columns
    # Without an event nothing was observed: a known error and known replicas stay (coalesce).
    changed = connection.execute(
        "UPDATE contents SET state = :state, attempts = :attempts, status_checks = :status_checks,"  # noqa: S608
        " next_at = :next_at, lease_owner = NULL,"
        " error = CASE WHEN :is_observed THEN :error ELSE coalesce(:error, error) END,"
        " replicas = coalesce(:replicas, replicas), wanted = coalesce(:wanted, wanted),"
        " peers = coalesce(:peers, peers),"
        f" updated_at = CASE WHEN :has_changed THEN :now ELSE updated_at END WHERE {_OURS}",
        values,
    )
    # It waits again: of several holders, the one who is served first may be another by now.
    if item.is_shared and columns["next_at"] is not None and changed.rowcount:
        assign_to_shortest_queue(connection, item.id)
    return changed.rowcount > 0


def _key(owner: str, item: WorkItem) -> dict[str, Any]:
    return {"id": item.id, "owner": owner, "generation": item.generation}
