"""The ledger's work queue in PostgreSQL: leases, outcomes and due times of contents.

Knows the tables `contents` and `work`, and locks rows in the order of additions.py. A lease is a
row of `work` with an owner; a writer whose lease has passed on, or whose generation is old, changes
nothing. What an event leads to is said by model/content_state.py, when to check again by the
reconciler; reports are in reports.py."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from content_gateway.ledger.content_rows import outcome_columns
from content_gateway.ledger.postgres.due_times import DueTimes
from content_gateway.ledger.postgres.leasing import Leasing
from content_gateway.ledger.postgres.reports import Reports
from content_gateway.ledger.postgres.requestors import assign_to_shortest_queue
from content_gateway.model.content_state import (
    SLOW_AFTER_ATTEMPTS,
    ContentState,
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
    WorkItem,
    after,
)
from content_gateway.postgres.transactions import Database, Transaction

_RENEW: Final = (
    "WITH mine AS MATERIALIZED (SELECT content FROM work WHERE content = ANY(%s::bigint[])"
    " AND lease_owner = %s ORDER BY content FOR UPDATE),"
    " renewed AS (UPDATE work SET lease_until = greatest(lease_until, %s) FROM mine"
    " WHERE work.content = mine.content RETURNING work.content)"
    " SELECT id, generation FROM contents WHERE id IN (SELECT content FROM renewed)"
)
_RELEASE: Final = (
    "WITH mine AS MATERIALIZED (SELECT content FROM work WHERE lease_owner = %s"
    " ORDER BY content FOR UPDATE)"
    " UPDATE work SET lease_owner = NULL, lease_until = NULL,"
    " due_at = CASE WHEN is_release THEN due_at ELSE %s END FROM mine"
    " WHERE work.content = mine.content"
)
_LOCK: Final = (
    "SELECT id, generation FROM contents WHERE id = ANY(%s::bigint[]) ORDER BY cid FOR UPDATE"
)
_LEASED: Final = (
    "SELECT content FROM work WHERE content = ANY(%s::bigint[]) AND lease_owner = %s"
    " ORDER BY content FOR UPDATE"
)
_BEGIN: Final = (
    "UPDATE contents SET last_request = %(last_request)s, requested_at = %(now)s,"
    " state = %(state)s, blocks = 0, size = 0 WHERE id = %(id)s"
    " AND (%(last_request)s = 'pin' OR %(though_held)s"
    " OR NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id)) RETURNING id"
)
_FORGET: Final = (
    "DELETE FROM contents WHERE id = ANY(%s::bigint[])"
    " AND NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id) RETURNING id"
)
_RECORD: Final = (
    "UPDATE contents SET state = n.state, attempts = n.attempts, status_checks = n.status_checks,"
    " error = CASE WHEN n.is_observed THEN n.error ELSE coalesce(n.error, contents.error) END,"
    " replicas = coalesce(n.replicas, contents.replicas),"
    " wanted = coalesce(n.wanted, contents.wanted), peers = coalesce(n.peers, contents.peers),"
    " updated_at = CASE WHEN n.has_changed THEN %s ELSE contents.updated_at END,"
    # By a clock that was wrong: its age is counted from now, once.
    " requested_at = CASE WHEN requested_at > %s THEN %s ELSE requested_at END"
    " FROM unnest(%s::bigint[], %s::text[], %s::integer[], %s::integer[], %s::text[],"
    " %s::boolean[], %s::integer[], %s::integer[], %s::text[], %s::boolean[])"
    " AS n(one, state, attempts,"
    " status_checks, error, is_observed, replicas, wanted, peers, has_changed)"
    " WHERE id = one AND id = ANY(%s::bigint[])"
)
_WAIT: Final = (
    "UPDATE work SET queue = n.queue, due_at = n.due_at, is_release = n.is_release,"
    " lease_owner = NULL, lease_until = NULL"
    " FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::boolean[])"
    " AS n(one, queue, due_at, is_release) WHERE content = one"
)
_GIVE_BACK: Final = (
    "UPDATE work SET lease_owner = NULL, lease_until = NULL,"
    " due_at = CASE WHEN is_release THEN due_at ELSE %s END"
    " WHERE content = ANY(%s::bigint[]) AND lease_owner = %s"
)
_DELETE_WORK: Final = "DELETE FROM work WHERE content = ANY(%s::bigint[])"
_COLUMNS: Final = (
    *("state", "attempts", "status_checks", "error", "is_observed"),
    *("replicas", "wanted", "peers", "has_changed"),
)


class PostgresWorkQueue(Reports):
    """The work queue of one database; released contents stay for *grace* seconds."""

    def __init__(
        self,
        database: Database,
        *,
        grace: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(database, clock)
        self._database = database
        self._grace = grace
        self._clock = clock
        self._leasing = Leasing(database)

    async def any_due(self, quota: LeaseQuota) -> bool:
        """As `WorkQueue.any_due`."""
        return await self._leasing.any_due(self._now(), quota)

    async def waiting_requestors(self, limit: int) -> Sequence[int]:
        """At most *limit* requestors, by number, that have contents in a queue."""
        # One after the other by the index: what each has may be much.
        rows = await self._database.ask(
            "WITH RECURSIVE line(turn_of, n) AS ((SELECT min(turn_of), 1 FROM work WHERE queue = 0)"
            " UNION ALL SELECT (SELECT min(w.turn_of) FROM work w WHERE w.queue = 0"
            " AND w.turn_of > line.turn_of), n + 1 FROM line WHERE turn_of IS NOT NULL AND n < %s)"
            " SELECT turn_of FROM line WHERE turn_of IS NOT NULL"
            " UNION SELECT turn_of FROM (SELECT turn_of FROM work WHERE queue > 0"
            " ORDER BY queue, due_at LIMIT 1000) later LIMIT %s",
            (limit, limit),
        )
        return [number for (number,) in rows]

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """As `WorkQueue.lease`."""
        now = self._now()
        return await self._leasing.lease(owner, now, now + round(seconds * 1000), quota)

    async def renew(self, owner: str, items: Iterable[WorkItem], seconds: float) -> set[int]:
        """As `WorkQueue.renew`."""
        known = {item.id: item.generation for item in items}
        until = self._now() + round(seconds * 1000)

        async def job(transaction: Transaction) -> set[int]:
            rows = await transaction.ask(_RENEW, (list(known), owner, until))
            return {number for number, generation in rows if known[number] == generation}

        return await self._database.transact(job)

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases. The contents are due now; released ones when their grace
        period ends."""
        now = self._now()

        async def job(transaction: Transaction) -> None:
            await transaction.send(_RELEASE, (owner, now))

        await self._database.transact(job)

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        """As `WorkQueue.rebase`, but for the wait of a released content: the grace period."""
        times = DueTimes(self._database, self._now)
        if back:
            await times.shorten(round(back * 1000))
        await times.rebase(longest=longest, grace=self._grace, lease=lease)

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
        values = {"last_request": last_request, "now": now, "state": state, "id": item.id}
        values["though_held"] = though_held

        async def job(transaction: Transaction) -> bool:
            if not await _ours(transaction, owner, [item]):
                return False
            return bool(await transaction.ask(_BEGIN, values))

        if state is None or not await self._database.transact(job):
            return None
        return replace(item, state=state, last_request=last_request, requested_at=now / 1000)

    async def progress(self, owner: str, item: WorkItem, blocks: int, size: int) -> None:
        """Record that the content is being fetched, and how far that is."""
        state = after(item.state, Event.SEEN_PINNING)

        async def job(transaction: Transaction) -> None:
            if await _ours(transaction, owner, [item]):
                await transaction.send(
                    "UPDATE contents SET state = %s, blocks = %s, size = %s WHERE id = %s",
                    (state, blocks, size, item.id),
                )

        await self._database.transact(job)

    async def record_outcomes(
        self, owner: str, outcomes: Sequence[tuple[WorkItem, Outcome]]
    ) -> None:
        """As `WorkQueue.record_outcomes`, in one transaction. If the generation of a content has
        changed, it is due again instead."""
        now = self._now()

        async def job(transaction: Transaction) -> None:
            ours = await _ours(transaction, owner, [item for item, _ in outcomes])
            columns, gone = dict[int, dict[str, Any]](), list[int]()
            for item, outcome in outcomes:
                if item.id in ours:
                    found = outcome_columns(item, outcome, now)
                    if found is None:
                        gone.append(item.id)
                    else:
                        columns[item.id] = found
            if gone:
                gone = [number for (number,) in await transaction.ask(_FORGET, (gone,))]
                await transaction.send(_DELETE_WORK, (gone,))
            if columns:
                await _record(transaction, now, columns)
            left = [item.id for item, _ in outcomes if item.id not in columns | _keys(gone)]
            if left:
                await transaction.send(_GIVE_BACK, (now, left, owner))
            # They wait again: of several holders, the one who is served first may be another.
            shared = [
                item.id
                for item, _ in outcomes
                if item.is_shared and columns.get(item.id, _NONE)["next_at"] is not None
            ]
            await assign_to_shortest_queue(transaction, shared)

        if outcomes:
            await self._database.transact(job)

    async def trigger(self, numbers: Sequence[int]) -> None:
        """Make those of these contents due now that are held and not leased."""
        await DueTimes(self._database, self._now).trigger(numbers)

    async def expedite(self) -> None:
        """Make all that waits due now, in several transactions, so that others can write in
        between."""
        await DueTimes(self._database, self._now).shorten(None)

    def _now(self) -> int:
        return round(self._clock() * 1000)


_NONE: Final[Mapping[str, Any]] = {"next_at": None}


def _keys(numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
    return {number: {} for number in numbers}


async def _ours(transaction: Transaction, owner: str, items: Sequence[WorkItem]) -> set[int]:
    """Lock *items*; those that *owner* has leased, and whose generation it knows."""
    numbers = [item.id for item in items]
    known = {item.id: item.generation for item in items}
    found = await transaction.ask(_LOCK, (numbers,))
    current = {number for number, generation in found if known[number] == generation}
    leased = {number for (number,) in await transaction.ask(_LEASED, (numbers, owner))}
    return current & leased


async def _record(
    transaction: Transaction, now: int, columns: Mapping[int, Mapping[str, Any]]
) -> None:
    """Write the outcomes that are *columns* by number, and end the leases."""
    numbers = sorted(columns)
    values = [[_text(columns[number][name]) for number in numbers] for name in _COLUMNS]
    await transaction.send(_RECORD, (now, now, now, numbers, *values, numbers))
    waits = [number for number in numbers if columns[number]["next_at"] is not None]
    finished = [number for number in numbers if columns[number]["next_at"] is None]
    if waits:
        queues = [_queue(columns[number]) for number in waits]
        dues = [columns[number]["next_at"] for number in waits]
        releases = [columns[number]["state"] is ContentState.UNPINNING for number in waits]
        await transaction.send(_WAIT, (waits, queues, dues, releases))
    if finished:
        await transaction.send(_DELETE_WORK, (finished,))


def _queue(columns: Mapping[str, Any]) -> int:
    attempts, checks = columns["attempts"], columns["status_checks"]
    return int(attempts + checks > 0) + int(attempts > SLOW_AFTER_ATTEMPTS)


def _text(value: Any) -> Any:
    # What a backend says may be anything; PostgreSQL takes all of Unicode but NUL.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
