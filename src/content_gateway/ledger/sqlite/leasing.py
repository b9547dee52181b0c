"""Leases contents in turn by requestor (round-robin), in SQL.

Theory of operation. Each requestor has a line of contents, ordered by `next_at`, in each of the
three queues. The table `turns` has one row for each line that is not empty, with the time from
which it may be served. A line that was served goes to the end, so that ten thousand contents of one
requestor delay another's by one. A row of `turns` may be too early, as its first content may have
been leased, released or postponed; it is corrected when it is served.

Knows the tables `contents` and `turns`. Shares are decided by model/content_state.py."""

import sqlite3
from typing import Any, Final

from content_gateway.ledger.content_rows import work_item_of
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
# A request time in the future was written by a wrong clock; min() makes it now, so that the batch
# age is counted from here.
_LEASE: Final = (
    "UPDATE contents SET lease_owner = :owner, next_at = :until,"  # noqa: S608 - constants
    " requested_at = min(requested_at, :now)"
    " WHERE id IN (SELECT id FROM contents WHERE {} AND next_at <= :now"
    " ORDER BY next_at LIMIT :limit)" + LEASED
)
_RELEASES: Final = _LEASE.format("state = 'unpinning'")
_NEXT_OF_QUEUE: Final = _LEASE.format(f"{QUEUE} = :queue AND turn_of = :requestor")
_DUE_QUEUES: Final = "SELECT requestor FROM turns WHERE queue = ? AND at <= ? ORDER BY at LIMIT ?"
_FIRST: Final = (
    f"SELECT min(next_at) FROM contents WHERE {QUEUE} = ? AND turn_of = ?"  # noqa: S608 - constant
    " AND next_at IS NOT NULL"
)
_MAX_QUEUES: Final = 256  # read by one transaction, to bound its length


def any_queue_due(connection: sqlite3.Connection, now: int, quota: LeaseQuota) -> bool:
    """Whether a line that *quota* allows to be served seems to have something due."""
    room = RemainingQuota(quota)
    for queue in Queue:
        line = connection.execute(_DUE_QUEUES, (queue, now * 1000, len(quota.held or ()) + 1))
        if any(room.of(queue, requestor) for (requestor,) in line.fetchall()):
            return True
    return False


class Leasing:
    """The leases of one transaction, for *owner* until *until* (milliseconds since 1970).

    *is_complete* is False if so many lines turned out empty that others were not reached."""

    def __init__(
        self, connection: sqlite3.Connection, owner: str, now: int, until: int, quota: LeaseQuota
    ) -> None:
        self._connection = connection
        self._now = now
        self._values = {"owner": owner, "now": now, "until": until}
        self._quota = quota
        self._room = RemainingQuota(quota)
        self.items: list[WorkItem] = []
        self.is_complete = True

    def run(self) -> None:
        """Lease by *quota*. First tries come last: they use what the bounded queues leave."""
        if self._quota.releases and self._room.left:
            limit = min(self._quota.releases, self._room.left)
            for item in self._lease(_RELEASES, {"limit": limit}):
                self._room.taken(item.queue, item.requestor)
        for queue in (Queue.SLOW, Queue.RETRY, Queue.FIRST_TRY):
            self._serve(queue)

    def _serve(self, queue: Queue) -> None:
        """Lease from the lines of *queue*, spread evenly over the requestors."""
        if not self._room.in_queue(queue):
            return
        # Requestors whose share is used up are skipped. Each of them has a content in progress, so
        # reading that many rows more still finds _MAX_QUEUES others.
        limit = _MAX_QUEUES + len(self._quota.held or ())
        found = self._connection.execute(_DUE_QUEUES, (queue, self._now * 1000, limit)).fetchall()
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
        # Requestors that got more stand behind those that got less.
        line = sorted((each for each in served if each in visited), key=served.__getitem__)
        for place, requestor in enumerate(line, -len(line)):
            self._requeue(queue, requestor, place)
        if len(found) == limit and self._room.in_queue(queue):
            self.is_complete = False

    def _lease_for(self, values: dict[str, Any]) -> int:
        """Lease the first contents of one line; returns how many."""
        items = self._lease(_NEXT_OF_QUEUE, values)
        for item in items:
            self._room.taken(values["queue"], item.requestor)
        return len(items)

    def _lease(self, statement: str, values: dict[str, Any]) -> list[WorkItem]:
        # fetchall: SQLite cannot commit while a statement is not finished. A row with an invalid
        # CID stays leased, so that it does not come back at once.
        rows = self._connection.execute(statement, self._values | values).fetchall()
        items = [item for item in map(work_item_of, rows) if item is not None]
        self.items += items
        return items

    def _requeue(self, queue: Queue, requestor: int, place: int) -> None:
        """Move a line to *place* microseconds from now, or its first due time; delete an empty
        one."""
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
