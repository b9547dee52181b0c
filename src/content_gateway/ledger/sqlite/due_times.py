"""Corrects due times that a wrong clock has written, in SQL.

Knows the times in `contents` and `turns`. pins/clock_watch.py notices a wrong clock."""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from content_gateway.ledger.sqlite.leasing import QUEUE

_BATCH: Final = 2_000
_ROWS_AT_ONCE: Final = 5_000
# CROSS JOIN fixes the order for SQLite's planner: line by line, an index range of each. Else it
# scans all that waits.
FAR: Final = (
    "SELECT contents.id FROM turns CROSS JOIN contents"  # noqa: S608 - constant
    f" WHERE {QUEUE} = turns.queue AND turn_of = turns.requestor AND next_at > :far"
    f" AND (state != 'unpinning' OR next_at > :far_unpinning) LIMIT {_BATCH}"
)
_REBASE: Final = (
    "UPDATE contents SET next_at = CASE"
    " WHEN lease_owner IS NOT NULL THEN :leased_until"  # its owner may be alive, and then renews it
    " WHEN state = 'unpinning' THEN :leaves_at ELSE :now END"
    " WHERE id IN (SELECT value FROM json_each(:ids)) AND next_at > :far"
)
_REQUEUE: Final = (
    "UPDATE turns SET at = :line WHERE (queue, requestor) IN"  # noqa: S608 - constant
    f" (SELECT queue, requestor FROM turns WHERE queue = :queue AND at > :late LIMIT {_BATCH})"
)


class DueTimes:
    """The latest due times that are right at *now* (milliseconds since 1970): *longest* seconds
    ahead, *grace* for released contents, *lease* for leases.

    With *is_step*, the clock was set back, and every line of `turns` is to be read again."""

    def __init__(
        self, now: int, *, longest: float, grace: float, lease: float, is_step: bool
    ) -> None:
        far = now + round(longest * 1000)
        leaves_at = now + round(grace * 1000)
        self._values = {
            "now": now,
            "line": now * 1000,
            "late": (now if is_step else far) * 1000,
            "far": far,
            "far_unpinning": max(far, leaves_at),
            "leaves_at": leaves_at,
            "leased_until": now + round(lease * 1000),
        }

    def far(self, connection: sqlite3.Connection) -> Sequence[int]:
        """At most _BATCH contents whose due time or lease is too far ahead."""
        return [number for (number,) in connection.execute(FAR, self._values)]

    def rebase(self, connection: sqlite3.Connection, *, numbers: Sequence[int]) -> None:
        """Make these contents due now, or at the end of a grace period or lease."""
        values = self._values | {"ids": msgspec.json.encode(numbers).decode()}
        connection.execute(_REBASE, values)

    def requeue(self, connection: sqlite3.Connection) -> int:
        """Let at most _BATCH lines of each queue be served now; returns how many."""
        return sum(
            connection.execute(_REQUEUE, self._values | {"queue": queue}).rowcount
            for queue in range(3)
        )


def shorten_waits(
    connection: sqlite3.Connection, *, above: int, now: int, seconds: float | None
) -> int:
    """Among the next contents *above*, make each wait end *seconds* sooner; with None now, except
    for grace periods. Returns the last number that was checked."""
    (most,) = connection.execute("SELECT coalesce(max(id), 0) FROM contents").fetchone()
    end = min(most, above + _ROWS_AT_ONCE)
    connection.execute(
        "UPDATE contents SET next_at = max(:now, coalesce(next_at - :less, :now))"
        " WHERE id > :above AND id <= :end AND next_at > :now"
        " AND lease_owner IS NULL AND (:less IS NOT NULL OR state != 'unpinning')",
        {
            "now": now,
            "above": above,
            "end": end,
            "less": None if seconds is None else round(seconds * 1000),
        },
    )
    return int(end)


def due_now(connection: sqlite3.Connection, *, numbers: Sequence[int], now: int) -> None:
    """Make those of these contents due now that are held and not leased."""
    connection.execute(
        "UPDATE contents SET next_at = :now WHERE id IN (SELECT value FROM json_each(:ids))"
        " AND next_at > :now AND lease_owner IS NULL AND state != 'unpinning'",
        {"now": now, "ids": msgspec.json.encode(numbers).decode()},
    )
