"""Gates in the ledger that a wrong clock has shut for too long, and how they are set again, in SQL.

Knows the moments in `contents` and `turns`; that a clock was wrong, pins/clock_watch.py tells."""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from content_gateway.ledger.leasing import QUEUE

_AT_ONCE: Final = 2_000
_ROWS_AT_ONCE: Final = 5_000
# From queue to queue, and in each only what is behind the moment: no walk through what waits.
FAR: Final = (
    "SELECT contents.id FROM turns CROSS JOIN contents"  # noqa: S608 - constant
    f" WHERE {QUEUE} = turns.queue AND turn_of = turns.requestor AND next_at > :far"
    f" AND (state != 'unpinning' OR next_at > :far_leaving) LIMIT {_AT_ONCE}"
)
_REBASE: Final = (
    "UPDATE contents SET next_at = CASE"
    " WHEN lease_owner IS NOT NULL THEN :leased_until"  # its owner may live, and renews it then
    " WHEN state = 'unpinning' THEN :leaves_at ELSE :now END"
    " WHERE id IN (SELECT value FROM json_each(:ids)) AND next_at > :far"
)
_LINE_UP: Final = (
    "UPDATE turns SET at = :line WHERE (queue, requestor) IN"  # noqa: S608 - constant
    f" (SELECT queue, requestor FROM turns WHERE queue = :queue AND at > :late LIMIT {_AT_ONCE})"
)


class Gates:
    """The gates at *now* (milliseconds since 1970): in *longest* seconds whatever waits is due but
    what has a period of *grace*, and no lease is longer than *lease*.

    With *is_step*, no queue is believed that it stands in the line of a later moment."""

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
            "far_leaving": max(far, leaves_at),
            "leaves_at": leaves_at,
            "leased_until": now + round(lease * 1000),
        }

    def far(self, connection: sqlite3.Connection) -> Sequence[int]:
        """Some of the contents that wait, or are leased, for too long."""
        return [number for (number,) in connection.execute(FAR, self._values)]

    def rebase(self, connection: sqlite3.Connection, *, numbers: Sequence[int]) -> None:
        """Open the gates of these."""
        values = self._values | {"ids": msgspec.json.encode(numbers).decode()}
        connection.execute(_REBASE, values)

    def line_up(self, connection: sqlite3.Connection) -> int:
        """Have some of the queues that stand in the line of a later moment looked into now; how
        many those were."""
        return sum(
            connection.execute(_LINE_UP, self._values | {"queue": queue}).rowcount
            for queue in range(3)
        )


def sooner(connection: sqlite3.Connection, *, above: int, now: int, seconds: float | None) -> int:
    """Let what waits among the next contents *above* wait *seconds* less, with None no more at all,
    but for its period of grace; the last number checked."""
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
    """Let these contents wait no more, but those that nobody holds."""
    connection.execute(
        "UPDATE contents SET next_at = :now WHERE id IN (SELECT value FROM json_each(:ids))"
        " AND next_at > :now AND lease_owner IS NULL AND state != 'unpinning'",
        {"now": now, "ids": msgspec.json.encode(numbers).decode()},
    )
