"""The pin ledger in SQL, as the reconciler and the resync see it: what is owed, and what is known.

Knows the tables `contents`, `jobs` and `resyncs`. A lease is a row that has an owner and a
moment to come; whose lease has passed on, or whose generation is old, writes nothing. What an
event leads to is said by model/content_state.py, and when to look again by whoever reconciles."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.ledger.content_rows import kept_sighting, waiting_of
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.due_times import Gates, due_now, sooner
from content_gateway.ledger.leasing import Leasing, any_in_line
from content_gateway.ledger.requestors import give_to_soonest
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

_REPORT_SECONDS: Final = 120.0
_OURS: Final = "id = :id AND lease_owner = :owner AND generation = :generation"


class SqliteWorkQueue:
    """The contents of one database; *grace* seconds pass before one that nobody holds leaves."""

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

    def any_due(self, quota: LeaseQuota) -> bool:
        """Whether a content that *quota* has room for seems to wait; it may be gone by now."""
        now = self._now()
        return self._database.read(lambda connection: any_in_line(connection, now, quota))

    def waiting_requestors(self, limit: int) -> Sequence[int]:
        """The numbers of so many requestors at most of whom something waits."""
        line = "SELECT DISTINCT requestor FROM turns LIMIT ?"
        return self._database.read(
            lambda connection: [number for (number,) in connection.execute(line, (limit,))]
        )

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """As many due contents as *quota* allows, for *owner* alone until *seconds* have passed;
        in turn by requestor."""

        def job(connection: sqlite3.Connection) -> Leasing:
            now = self._now()
            leasing = Leasing(connection, owner, now, now + round(seconds * 1000), quota)
            leasing.run()
            return leasing

        while True:
            leasing = await self._database.write(job)
            if leasing.items or leasing.is_whole:
                return leasing.items

    async def renew(self, owner: str, items: Iterable[WorkItem], seconds: float) -> set[int]:
        """Extend *owner*'s leases; the numbers of those that it still has, under the generation
        that it knows."""
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
        """Give up all of *owner*'s leases: what they covered is due now, or when it was to be."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE contents SET lease_owner = NULL, next_at ="
                " CASE WHEN state = 'unpinning' THEN next_at ELSE ? END WHERE lease_owner = ?",
                (now, owner),
            )

        await self._database.write(job)

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        """Let what waits wait *back* seconds less, as the clock was set back; and nothing longer
        than *longest* seconds, but for a period of grace, nor leased for more than *lease*."""
        now, last = self._now(), 0
        shift = partial(sooner, now=now, seconds=back)
        while back and (end := await self._database.write(partial(shift, above=last))) > last:
            last = end
        gates = Gates(now, longest=longest, grace=self._grace, lease=lease, is_step=back > 0)
        while numbers := await self._database.search(gates.far, is_ours=True):
            await self._database.write(partial(gates.rebase, numbers=numbers))
        while await self._database.write(gates.line_up):
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
        """Record *event*, and that *last_request* is about to be asked of the backend; the content
        as it is then, once that is durable.

        None, and nothing may be last_request, if the lease or the generation has passed on, or if
        an unpin is meant and somebody holds the content, but *though_held*."""
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
        """Keep that the content is being brought in, and how far that is."""
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
        """Write *outcomes* and end their leases; nothing happens where *owner* has lost one.

        Where the generation has passed on nothing is recorded, and the content is due again."""
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
        """Make these contents due now, where somebody holds them and nobody reconciles them."""
        await self._database.write(partial(due_now, numbers=numbers, now=self._now()))

    async def expedite(self) -> None:
        """Make everything that waits, and that nobody reconciles, due now; some of it at a time, so
        that whoever wants to write in between can."""
        now, last = self._now(), 0
        while (
            end := await self._database.write(partial(sooner, above=last, now=now, seconds=None))
        ) > last:
            last = end

    async def counts(self) -> Mapping[ContentState, int]:
        """How many contents there are in each state. Reads all of them."""

        def job(connection: sqlite3.Connection) -> dict[ContentState, int]:
            found = connection.execute("SELECT state, count(*) FROM contents GROUP BY state")
            return {ContentState(state): number for state, number in found}

        return await self._database.search(job, seconds=_REPORT_SECONDS)

    async def backlog(self, since: datetime) -> Backlog:
        """How many contents want reconciling. What has failed *since* then is not due any more."""
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

        return await self._database.search(job, seconds=_REPORT_SECONDS)

    async def reasons(self, limit: int) -> Mapping[str | None, int]:
        """Why contents are promised and not pinned, and how many of them; the most frequent reasons
        first, None where nothing went wrong."""
        states = msgspec.json.encode([*PENDING, ContentState.FAILED]).decode()

        def job(connection: sqlite3.Connection) -> dict[str | None, int]:
            found = connection.execute(
                "SELECT error, count(*) AS number FROM contents WHERE next_at IS NOT NULL"
                " AND state IN (SELECT value FROM json_each(?))"
                " GROUP BY error ORDER BY number DESC LIMIT ?",
                (states, limit),
            )
            return dict(found.fetchall())

        return await self._database.search(job, seconds=_REPORT_SECONDS)

    async def waiting(self, limit: int) -> Sequence[Waiting]:
        """The contents that are promised and not pinned, those that wait longest first."""
        states = msgspec.json.encode([*PENDING, ContentState.FAILED]).decode()

        def job(connection: sqlite3.Connection) -> list[Waiting]:
            rows = connection.execute(
                "SELECT cid, state, updated_at, attempts, error,"
                " CASE WHEN lease_owner IS NULL THEN next_at END FROM contents"
                " WHERE next_at IS NOT NULL AND state IN (SELECT value FROM json_each(?))"
                " ORDER BY updated_at LIMIT ?",
                (states, limit),
            )
            return [waiting_of(row) for row in rows]

        return await self._database.search(job, seconds=_REPORT_SECONDS)

    def _now(self) -> int:
        return round(self._clock() * 1000)


def _record(
    connection: sqlite3.Connection, owner: str, item: WorkItem, outcome: Outcome, now: int
) -> bool:
    """Write one outcome; False if the lease or the generation has passed on."""
    state: ContentState | None = item.state
    if outcome.event is not None:
        state = after(item.state, outcome.event)
    values = _key(owner, item)
    if state is None:
        gone = connection.execute(
            f"DELETE FROM contents WHERE {_OURS}"  # noqa: S608 - constant
            " AND NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id)",
            values,
        )
        return gone.rowcount > 0
    has_changed = state is not item.state
    is_pinned = state is ContentState.PINNED
    attempts = max(0, item.attempts + outcome.attempted - outcome.is_untried)
    next_at = None if outcome.again_in is None else now + round(outcome.again_in * 1000)
    status_checks = item.status_checks if outcome.is_uncounted else item.status_checks + 1
    values |= {
        "state": state,
        "attempts": 0 if is_pinned else attempts,
        "status_checks": 1 if has_changed or outcome.attempted else status_checks,
        "next_at": next_at,
        "error": outcome.error,
        "has_learned": outcome.event is not None,
        "now": now,
        "has_changed": has_changed,
        **kept_sighting(outcome.status, at_milliseconds(now)),
    }
    changed = connection.execute(
        "UPDATE contents SET state = :state, attempts = :attempts, status_checks = :status_checks,"  # noqa: S608
        " next_at = :next_at, lease_owner = NULL,"
        " error = CASE WHEN :has_learned THEN :error ELSE coalesce(:error, error) END,"
        " replicas = coalesce(:replicas, replicas), wanted = coalesce(:wanted, wanted),"
        " peers = coalesce(:peers, peers),"
        f" updated_at = CASE WHEN :has_changed THEN :now ELSE updated_at END WHERE {_OURS}",
        values,
    )
    if item.is_shared and next_at is not None and changed.rowcount:
        give_to_soonest(connection, item.id)
    return changed.rowcount > 0


def _key(owner: str, item: WorkItem) -> dict[str, Any]:
    return {"id": item.id, "owner": owner, "generation": item.generation}
