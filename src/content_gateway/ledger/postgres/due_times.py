"""Corrects due times in PostgreSQL: what a wrong clock has written, and what must not wait longer.

In steps, so that others write in between; rows are locked by number, as everywhere. Knows the times
in `work`. pins/clock_watch.py notices a wrong clock."""

from collections.abc import Callable, Sequence
from typing import Final

from content_gateway.ledger.postgres.additions import NOTIFY
from content_gateway.postgres.transactions import Database, Transaction

_BATCH: Final = 2_000
# What is not leased and waits, the next of them above a number.
_STEP: Final = (
    "WITH waits AS MATERIALIZED (SELECT content FROM work WHERE content > %(above)s"
    " AND due_at > %(now)s AND lease_owner IS NULL"
    " AND (%(less)s::bigint IS NOT NULL OR NOT is_release)"
    " ORDER BY content LIMIT %(batch)s FOR UPDATE),"
    " shortened AS (UPDATE work"
    " SET due_at = greatest(%(now)s, coalesce(due_at - %(less)s::bigint, %(now)s))"
    " FROM waits WHERE work.content = waits.content)"
    " SELECT max(content) FROM waits"
)
_REBASE: Final = (
    "WITH far AS MATERIALIZED (SELECT content FROM work WHERE"
    " CASE WHEN lease_owner IS NOT NULL THEN lease_until > %(far)s"
    " WHEN is_release THEN due_at > %(far_release)s ELSE due_at > %(far)s END"
    " ORDER BY content LIMIT %(batch)s FOR UPDATE)"
    " UPDATE work SET"
    # The owner of a lease may be alone with a right clock, and then renews it.
    " lease_until = CASE WHEN lease_owner IS NOT NULL THEN %(leased_until)s END,"
    " due_at = CASE WHEN lease_owner IS NOT NULL THEN due_at"
    " WHEN is_release THEN %(leaves_at)s ELSE %(now)s END"
    " FROM far WHERE work.content = far.content RETURNING work.content"
)
_TRIGGER: Final = (
    "WITH waits AS MATERIALIZED (SELECT content FROM work WHERE content = ANY(%s::bigint[])"
    " AND due_at > %s AND lease_owner IS NULL AND NOT is_release ORDER BY content FOR UPDATE)"
    " UPDATE work SET due_at = %s FROM waits WHERE work.content = waits.content"
)


class DueTimes:
    """The due times of one database, by *clock* (milliseconds since 1970).

    It is read when a statement begins, which may have waited for longer than a lease is: one that
    was given meanwhile is not one of the future."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    async def shorten(self, less: int | None) -> None:
        """Let each wait end *less* milliseconds sooner; with None now, but for grace periods."""
        above: int | None = 0
        while above is not None:
            values = {"above": above, "less": less, "batch": _BATCH}

            async def job(
                transaction: Transaction, values: dict[str, int | None] = values
            ) -> int | None:
                ((last,),) = await transaction.ask(_STEP, values | {"now": self._clock()})
                await transaction.send(NOTIFY)
                return None if last is None else int(last)

            above = await self._database.transact(job)

    async def rebase(self, *, longest: float, grace: float, lease: float) -> None:
        """End waits of more than *longest* seconds now, and cut leases that long to *lease*; what
        is released waits for *grace* seconds at most."""

        async def job(transaction: Transaction) -> int:
            now = self._clock()
            far, leaves_at = now + round(longest * 1000), now + round(grace * 1000)
            values = {
                "now": now,
                "far": far,
                "far_release": max(far, leaves_at),
                "leaves_at": leaves_at,
                "leased_until": now + round(lease * 1000),
                "batch": _BATCH,
            }
            return len(await transaction.ask(_REBASE, values))

        while await self._database.transact(job):
            pass

    async def trigger(self, numbers: Sequence[int]) -> None:
        """Make those of these contents due now that are held and not leased."""

        async def job(transaction: Transaction) -> None:
            now = self._clock()
            await transaction.send(_TRIGGER, (list(numbers), now, now))

        await self._database.transact(job)
