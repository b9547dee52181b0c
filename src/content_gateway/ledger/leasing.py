"""Leases in turn by requestor: which contents one call of `lease` gives out, in SQL.

Every requestor has a queue in each queue, in the order of `next_at`; the table `turns` has the
queues that are not empty, in the order in which they were served. Who was served goes to the end of
that line, so that ten thousand contents of one requestor delay another's by one. A row of `turns`
may stand before its time, as what made it wait may be gone: whoever finds it puts it right. Knows
the tables `contents` and `turns`; how many one requestor may have, model/content_state.py says."""

import sqlite3
from typing import Any, Final

from content_gateway.ledger.content_rows import due_of
from content_gateway.model.content_state import (
    SLOW_AFTER_ATTEMPTS,
    LeaseQuota,
    Queue,
    RemainingQuota,
    WorkItem,
)

QUEUE: Final = f"(attempts + status_checks > 0) + (attempts > {SLOW_AFTER_ATTEMPTS})"
LEASED: Final = (
    " RETURNING id, cid, state, generation,"
    " (SELECT count(*) FROM (SELECT 1 FROM pins WHERE content = contents.id LIMIT 2)),"
    " attempts, status_checks, last_request, requested_at, turn_of"
)
# What seems to have been sent in the future was sent by a clock that was wrong: it was just now.
_LEASE: Final = (
    "UPDATE contents SET lease_owner = :owner, next_at = :until,"  # noqa: S608 - constants
    " requested_at = min(requested_at, :now)"
    " WHERE id IN (SELECT id FROM contents WHERE {} AND next_at <= :now"
    " ORDER BY next_at LIMIT :limit)" + LEASED
)
_RELEASES: Final = _LEASE.format("state = 'unpinning'")
_NEXT_IN_LINE: Final = _LEASE.format(f"{QUEUE} = :queue AND turn_of = :requestor")
_LINE: Final = "SELECT requestor FROM turns WHERE queue = ? AND at <= ? ORDER BY at LIMIT ?"
_FIRST: Final = (
    f"SELECT min(next_at) FROM contents WHERE {QUEUE} = ? AND turn_of = ?"  # noqa: S608 - constant
    " AND next_at IS NOT NULL"
)
_MOST_QUEUES: Final = 256  # that one transaction looks into


def any_in_line(connection: sqlite3.Connection, now: int, quota: LeaseQuota) -> bool:
    """Whether a queue that may be served seems to have something due."""
    room = RemainingQuota(quota)
    for queue in Queue:
        line = connection.execute(_LINE, (queue, now * 1000, len(quota.held or ()) + 1))
        if any(room.of(queue, requestor) for (requestor,) in line.fetchall()):
            return True
    return False


class Leasing:
    """One transaction's leases, for *owner* until *until* (milliseconds since 1970).

    *is_whole* is False where so many queues turned out to be empty that others were not reached."""

    def __init__(
        self, connection: sqlite3.Connection, owner: str, now: int, until: int, quota: LeaseQuota
    ) -> None:
        self._connection = connection
        self._now = now
        self._values = {"owner": owner, "now": now, "until": until}
        self._shares = quota
        self._room = RemainingQuota(quota)
        self.items: list[WorkItem] = []
        self.is_whole = True

    def run(self) -> None:
        """Lease what there is room for; first tries come last, and get what the others leave."""
        if self._shares.releases and self._room.left:
            limit = min(self._shares.releases, self._room.left)
            for item in self._lease(_RELEASES, {"limit": limit}):
                self._room.taken(item.queue, item.requestor)
        for queue in (Queue.SLOW, Queue.RETRY, Queue.FIRST_TRY):
            self._serve(queue)

    def _serve(self, queue: Queue) -> None:
        """Lease from the queues of *queue*, one after the other, as evenly as they allow."""
        if not self._room.in_queue(queue):
            return
        # Those whose share is used up have something under way, so they are not many.
        limit = _MOST_QUEUES + len(self._shares.held or ())
        found = self._connection.execute(_LINE, (queue, self._now * 1000, limit)).fetchall()
        queues = [requestor for (requestor,) in found if self._room.of(queue, requestor)]
        served = dict.fromkeys(queues, 0)
        visited: set[int] = set()
        while queues and (left := self._room.in_queue(queue)):
            part, again = max(1, left // len(queues)), []
            for requestor in queues:
                wanted = min(part, self._room.of(queue, requestor))
                if not wanted:
                    continue
                values = {"queue": queue, "requestor": requestor, "limit": wanted}
                number = self._lease_for(values)
                visited.add(requestor)
                served[requestor] += number
                if number == wanted:
                    again.append(requestor)
            queues = again
        # Who got one more than the others stands behind them.
        line = sorted((each for each in served if each in visited), key=served.__getitem__)
        for place, requestor in enumerate(line, -len(line)):
            self._line_up(queue, requestor, place)
        if len(found) == limit and self._room.in_queue(queue):
            self.is_whole = False

    def _lease_for(self, values: dict[str, Any]) -> int:
        """Lease the first of a queue; how many there were."""
        items = self._lease(_NEXT_IN_LINE, values)
        for item in items:
            self._room.taken(values["queue"], item.requestor)
        return len(items)

    def _lease(self, statement: str, values: dict[str, Any]) -> list[WorkItem]:
        # All rows first: a statement left in the middle stops every later commit. A row that is no
        # content has its lease like the others, and no worker.
        rows = self._connection.execute(statement, self._values | values).fetchall()
        items = [item for item in map(due_of, rows) if item is not None]
        self.items += items
        return items

    def _line_up(self, queue: Queue, requestor: int, place: int) -> None:
        """Send a queue to the end of the line, microseconds *place* from now, or to when its first
        is due; an empty one goes."""
        (first,) = self._connection.execute(_FIRST, (queue, requestor)).fetchone()
        if first is None:
            self._connection.execute(
                "DELETE FROM turns WHERE queue = ? AND requestor = ?", (queue, requestor)
            )
        else:
            self._connection.execute(
                "UPDATE turns SET at = ? WHERE queue = ? AND requestor = ?",
                (max(first * 1000, self._now * 1000 + place), queue, requestor),
            )
