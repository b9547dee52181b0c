"""Leases due contents in PostgreSQL, by requestor in turn, beside other processes that do so too.

Theory of operation. `work` has a row for each content that wants reconciling: in which queue, in
whose turn, and when it is due. Each process goes round the requestors of a queue in the order of
their numbers, and begins where it ended; so ten thousand contents of one requestor delay another's
by one. A requestor is found in the index by itself, without reading what it has (a loose index
scan). Where little is due, those who have it are read at once; where much is, so many requestors
are looked at for each lease, and with them whoever has what was due first.

Rows that another process leases in this moment are passed over (SKIP LOCKED): nobody waits, and
nothing is leased twice. An expired lease is ended by whoever leases next. Shares are decided by
model/content_state.py. Knows the table `work`."""

from collections.abc import Mapping, Sequence
from typing import Final

from content_gateway.ledger.content_rows import work_item_of
from content_gateway.model.content_state import LeaseQuota, Queue, RemainingQuota, WorkItem
from content_gateway.postgres.transactions import Database, Row, Transaction

_MOST_DUE: Final = 1_000  # rows that are read to see who has them
_MOST_LINES: Final = 1_000  # requestors that are looked at by one statement
# The requestors of the first rows that are due, and how many rows these are.
_EARLY: Final = (
    "SELECT turn_of, count(*) FROM (SELECT turn_of FROM work WHERE queue = %s"
    " AND lease_owner IS NULL AND due_at <= %s ORDER BY due_at LIMIT %s) early GROUP BY turn_of"
)
# From one requestor behind the last to the next, each by one probe of the index.
_LINES: Final = (
    "WITH RECURSIVE line(turn_of, n) AS ("
    " (SELECT turn_of, 1 FROM work WHERE queue = %(queue)s AND lease_owner IS NULL"
    " AND turn_of > %(after)s ORDER BY turn_of LIMIT 1)"
    " UNION ALL SELECT (SELECT w.turn_of FROM work w WHERE w.queue = %(queue)s"
    " AND w.lease_owner IS NULL AND w.turn_of > line.turn_of ORDER BY w.turn_of LIMIT 1), n + 1"
    " FROM line WHERE line.turn_of IS NOT NULL AND n < %(lines)s)"
    " SELECT turn_of, (SELECT count(*) FROM (SELECT 1 FROM work w WHERE w.queue = %(queue)s"
    " AND w.turn_of = line.turn_of AND w.lease_owner IS NULL AND w.due_at <= %(now)s"
    " LIMIT %(room)s) due) FROM line WHERE turn_of IS NOT NULL"
)
_LEASE: Final = (
    "WITH picked AS MATERIALIZED (SELECT w.content"
    " FROM unnest(%(requestors)s::bigint[], %(limits)s::bigint[]) AS line(turn_of, most),"
    " LATERAL (SELECT content FROM work WHERE queue = %(queue)s AND turn_of = line.turn_of"
    " AND lease_owner IS NULL AND due_at <= %(now)s ORDER BY due_at LIMIT line.most"
    " FOR UPDATE SKIP LOCKED) w)"
    " UPDATE work SET lease_owner = %(owner)s, lease_until = %(until)s FROM picked"
    " WHERE work.content = picked.content RETURNING work.content, work.turn_of, work.due_at"
)
_LEASE_RELEASES: Final = (
    "WITH picked AS MATERIALIZED (SELECT content FROM work WHERE is_release"
    " AND lease_owner IS NULL AND due_at <= %(now)s ORDER BY due_at LIMIT %(limit)s"
    " FOR UPDATE SKIP LOCKED)"
    " UPDATE work SET lease_owner = %(owner)s, lease_until = %(until)s FROM picked"
    " WHERE work.content = picked.content RETURNING work.content, work.turn_of, work.due_at"
)
_EXPIRE: Final = (
    "WITH expired AS MATERIALIZED (SELECT content FROM work WHERE lease_owner IS NOT NULL"
    " AND lease_until <= %s ORDER BY content FOR UPDATE SKIP LOCKED)"
    " UPDATE work SET lease_owner = NULL, lease_until = NULL FROM expired"
    " WHERE work.content = expired.content"
)
_ANY_EXPIRED: Final = (
    "SELECT EXISTS (SELECT 1 FROM work WHERE lease_owner IS NOT NULL AND lease_until <= %s)"
)
# A request time in the future was written by a wrong clock; least() makes it now, as does whoever
# records the outcome, so that the batch age is counted from here.
_ITEMS: Final = (
    "SELECT id, cid, state, generation,"
    " (SELECT count(*) FROM (SELECT 1 FROM pins WHERE content = contents.id LIMIT 2) held),"
    " attempts, status_checks, last_request, least(requested_at, %s)"
    " FROM contents WHERE id = ANY(%s::bigint[])"
)


class Leasing:
    """The leases of one process; it remembers where it is on its way round the requestors."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._served = dict.fromkeys(Queue, 0)  # the requestor that was served last

    async def any_due(self, now: int, quota: LeaseQuota) -> bool:
        """Whether something that *quota* allows seems to be due at *now* (milliseconds)."""
        room = RemainingQuota(quota)
        for queue in Queue:
            if not room.in_queue(queue):
                continue
            early = await self._database.ask(_EARLY, (queue, now, _MOST_DUE))
            if any(room.of(queue, requestor) for requestor, _ in early):
                return True
            if sum(number for _, number in early) == _MOST_DUE:
                lines = await self._lines(queue, now, room.in_queue(queue))
                if any(room.of(queue, requestor) for requestor in lines):
                    return True
        ((has_expired,),) = await self._database.ask(_ANY_EXPIRED, (now,))
        return bool(has_expired)

    async def lease(self, owner: str, now: int, until: int, quota: LeaseQuota) -> list[WorkItem]:
        """Lease by *quota* to *owner*, until *until*. First tries come last: they use what the
        bounded queues leave."""
        await self._write(_EXPIRE, (now,))
        room, leased = RemainingQuota(quota), list[WorkItem]()
        values = {"owner": owner, "now": now, "until": until}
        if quota.releases and room.left:
            limit = min(quota.releases, room.left)
            for item in await self._items(
                now, await self._write(_LEASE_RELEASES, values | {"limit": limit})
            ):
                room.taken(item.queue, item.requestor)
                leased.append(item)
        for queue in (Queue.SLOW, Queue.RETRY, Queue.FIRST_TRY):
            leased += await self._serve(queue, values, room)
        return leased

    async def _serve(
        self, queue: Queue, values: Mapping[str, object], room: RemainingQuota
    ) -> list[WorkItem]:
        """Lease from the lines of *queue*, spread evenly over the requestors."""
        if not room.in_queue(queue):
            return []
        now = values["now"]
        assert isinstance(now, int)  # noqa: S101 - by `lease`
        due = await self._due(queue, now, room.in_queue(queue))
        parts = self._parts(queue, due, room)
        if not parts:
            return []
        chosen = {"queue": queue, "requestors": list(parts), "limits": list(parts.values())}
        items = await self._items(now, await self._write(_LEASE, {**values, **chosen}))
        for item in items:
            room.taken(queue, item.requestor)
        return items

    def _parts(
        self, queue: Queue, due: Mapping[int, int], room: RemainingQuota
    ) -> Mapping[int, int]:
        """How many each requestor gets of those that are *due*, in turn from the one behind whom
        was served last."""
        last = self._served[queue]
        line = sorted(due, key=lambda requestor: (requestor <= last, requestor))
        parts = dict.fromkeys(line, 0)
        most = {one: min(due[one], room.of(queue, one)) for one in line}
        left = room.in_queue(queue)
        while left and (line := [one for one in line if parts[one] < most[one]]):
            part = max(1, left // len(line))
            for requestor in line[:left]:
                more = min(part, most[requestor] - parts[requestor], left)
                parts[requestor] += more
                left -= more
                self._served[queue] = requestor
        return {one: number for one, number in parts.items() if number}

    async def _due(self, queue: Queue, now: int, room: int) -> Mapping[int, int]:
        """How many contents of requestors are due, as far as *room* for them goes."""
        rows = await self._database.ask(_EARLY, (queue, now, _MOST_DUE))
        early: dict[int, int] = dict(rows)
        if sum(early.values()) < _MOST_DUE:
            return early
        lines = await self._lines(queue, now, room)
        return {one: max(number, early.get(one, 0)) for one, number in (early | lines).items()}

    async def _lines(self, queue: Queue, now: int, room: int) -> dict[int, int]:
        """Those of the next requestors who have something due, and how much."""
        values = {"queue": queue, "now": now, "room": room, "lines": _MOST_LINES}
        after = self._served[queue]
        rows = await self._database.ask(_LINES, values | {"after": after})
        if len(rows) < _MOST_LINES and after:  # and from the beginning
            rows += await self._database.ask(_LINES, values | {"after": 0})
        return {requestor: number for requestor, number in rows if number}

    async def _items(self, now: int, leased: Sequence[Row]) -> list[WorkItem]:
        """The contents of *leased* rows, in the order in which they were due.

        A row with an invalid CID stays leased, so that it does not come back at once."""
        if not leased:
            return []
        turns = {content: turn_of for content, turn_of, _ in leased}
        rows = await self._database.ask(_ITEMS, (now, list(turns)))
        order = {content: (due_at, content) for content, _, due_at in leased}
        rows.sort(key=lambda row: order[row[0]])
        items = (work_item_of((*row, turns[row[0]])) for row in rows)
        return [item for item in items if item is not None]

    async def _write(
        self, statement: str, values: Mapping[str, object] | tuple[object, ...]
    ) -> list[Row]:
        returns = "RETURNING" in statement

        async def job(transaction: Transaction) -> list[Row]:
            given = dict(values) if isinstance(values, Mapping) else values
            if returns:
                return await transaction.ask(statement, given)
            await transaction.send(statement, given)
            return []

        return await self._database.transact(job)
