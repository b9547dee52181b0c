"""Reports on the work queue in PostgreSQL, for operators and metrics.

Searches of the operator's, for which no requestor is charged. Knows the tables `contents` and
`work`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.content_rows import waiting_of
from content_gateway.model.backlog import PENDING, Backlog, Waiting
from content_gateway.model.content_state import ContentState
from content_gateway.postgres.transactions import Database, Transaction

T = TypeVar("T")

_TIMEOUT: Final = 120.0
_BACKLOG: Final = (
    "SELECT state, count(*), count(lease_owner), count(*) FILTER (WHERE"
    " CASE WHEN lease_owner IS NULL THEN due_at ELSE lease_until END <= %(now)s"
    " AND (state <> 'failed' OR requested_at IS NULL OR requested_at < %(since)s"
    " OR requested_at > %(now)s))"  # by a clock that was wrong
    " FROM work JOIN contents ON id = content GROUP BY state"
)
_WAITING: Final = (
    "SELECT cid, state, updated_at, attempts, error,"
    " CASE WHEN lease_owner IS NULL THEN due_at END FROM work JOIN contents ON id = content"
    " WHERE state = ANY(%s::text[]) ORDER BY updated_at LIMIT %s"
)


class Reports:
    """What operators ask of all contents that want reconciling."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._reported = database
        self._clock = clock

    async def counts(self) -> Mapping[ContentState, int]:
        """How many contents are in each state. Scans the whole table."""

        async def job(transaction: Transaction) -> dict[ContentState, int]:
            found = await transaction.ask("SELECT state, count(*) FROM contents GROUP BY state")
            return {ContentState(state): number for state, number in found}

        return await self._report(job)

    async def backlog(self, since: datetime) -> Backlog:
        """How many contents want reconciling. Those that failed after *since* are not due."""
        values = {"now": round(self._clock() * 1000), "since": milliseconds(since)}

        async def job(transaction: Transaction) -> Backlog:
            rows = await transaction.ask(_BACKLOG, values)
            by_state = {ContentState(row[0]): row[1] for row in rows}
            return Backlog(by_state, sum(row[2] for row in rows), sum(row[3] for row in rows))

        return await self._report(job)

    async def reasons(self, limit: int) -> Mapping[str | None, int]:
        """The *limit* most frequent reasons why promised contents are not pinned, None for none."""
        states = [state.value for state in (*PENDING, ContentState.FAILED)]

        async def job(transaction: Transaction) -> dict[str | None, int]:
            found = await transaction.ask(
                "SELECT error, count(*) AS number FROM work JOIN contents ON id = content"
                " WHERE state = ANY(%s::text[]) GROUP BY error ORDER BY number DESC LIMIT %s",
                (states, limit),
            )
            return dict(found)

        return await self._report(job)

    async def waiting(
        self, limit: int, states: Collection[ContentState] = (*PENDING, ContentState.FAILED)
    ) -> Sequence[Waiting]:
        """At most *limit* contents that are promised and in one of *states*, those that have been
        in it the longest first."""

        async def job(transaction: Transaction) -> list[Waiting]:
            wanted = [state.value for state in states]
            return [waiting_of(row) for row in await transaction.ask(_WAITING, (wanted, limit))]

        return await self._report(job)

    async def _report(self, job: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._reported.search(job, seconds=_TIMEOUT, is_ours=True)
