"""The numbers of requestors in the ledger, and in whose turn a content waits that several hold.

Knows the tables `requestors` and `pins`, and the queues of `contents`. When contents are leased is
left to leasing.py."""

import sqlite3
from collections.abc import Iterable
from typing import Final

from content_gateway.ledger.leasing import QUEUE

_MOST_HOLDERS: Final = 4  # that are compared; a content that many hold is nobody's burden alone
_LONGEST_COUNTED: Final = 500
_LENGTH: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM contents"  # noqa: S608 - constant
    f" WHERE {QUEUE} = :queue AND turn_of = :requestor AND next_at <= :at LIMIT {_LONGEST_COUNTED})"
)


def number_for(connection: sqlite3.Connection, requestor: str) -> int:
    """A number for *requestor*, who has none yet."""
    (number,) = connection.execute(
        "INSERT INTO requestors (requestor) VALUES (?) RETURNING number", (requestor,)
    ).fetchone()
    return int(number)


def give_to_soonest(connection: sqlite3.Connection, content: int) -> None:
    """Have *content*, if it waits, wait in the turn of that one of its holders who is served first:
    whose queue has the fewest before it."""
    row = connection.execute(
        f"SELECT {QUEUE}, turn_of, next_at FROM contents WHERE id = ?",  # noqa: S608 - constant
        (content,),
    ).fetchone()
    if row is None or row[2] is None:
        return
    queue, present, at = row
    holders = [number for (number,) in _holders(connection, content)]
    if not holders or holders == [present]:
        return

    def before(requestor: int) -> tuple[int, bool]:
        values = {"queue": queue, "requestor": requestor, "at": at}
        (length,) = connection.execute(_LENGTH, values).fetchone()
        is_present = requestor == present
        return length - is_present, not is_present  # it does not stand before itself

    soonest = min(holders, key=before)
    if soonest != present:
        connection.execute("UPDATE contents SET turn_of = ? WHERE id = ?", (soonest, content))


def _holders(connection: sqlite3.Connection, content: int) -> Iterable[tuple[int]]:
    return connection.execute(
        "SELECT number FROM pins JOIN requestors USING (requestor) WHERE content = ? LIMIT ?",
        (content, _MOST_HOLDERS),
    ).fetchall()
