"""Requestors in SQL: their numbers, their pins, and for whom a content with several waits.

Knows the tables `requestors` and `pins`, and the queues of `contents` (leasing.py)."""

import sqlite3
from collections.abc import Iterable
from typing import Final

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.leasing import QUEUE

_MAX_HOLDERS: Final = 4  # compared at most, to bound the cost of a content that many hold
_MAX_COUNTED: Final = 500
PINS_OF_REQUESTOR: Final = (
    "SELECT count(*) FROM pins AS held WHERE held.requestor = requestors.requestor"
)
_LENGTH: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM contents"  # noqa: S608 - constant
    f" WHERE {QUEUE} = :queue AND turn_of = :requestor AND next_at <= :at LIMIT {_MAX_COUNTED})"
)


def requestor_from(database: LedgerDatabase, least: str) -> str | None:
    """The first requestor with pins in the order of their ids, *least* or behind it; None at the
    end. Raises StorageUnavailable."""
    (found,) = database.read(
        lambda connection: connection.execute(
            "SELECT min(requestor) FROM pins WHERE requestor >= ?", (least,)
        ).fetchone()
    )
    return None if found is None else str(found)


def number_for(connection: sqlite3.Connection, requestor: str) -> int:
    """A new number for *requestor*."""
    (number,) = connection.execute(
        "INSERT INTO requestors (requestor) VALUES (?) RETURNING number", (requestor,)
    ).fetchone()
    return int(number)


def count_pins(connection: sqlite3.Connection, requestor: str, more: int) -> None:
    """Count *more* pins of *requestor*, fewer where negative; in the transaction that makes them.

    Counted here, since counting rows would read all of them for each pin of a key with a limit."""
    connection.execute(
        "UPDATE requestors SET pins = pins + ? WHERE requestor = ?", (more, requestor)
    )


def recount_pins(connection: sqlite3.Connection) -> int:
    """Count the pins of all requestors again; of how many the count was wrong.

    As it is where an earlier version, which does not count, went on writing beside the migration.
    Reads all pins."""
    return connection.execute(
        f"UPDATE requestors SET pins = ({PINS_OF_REQUESTOR}) WHERE pins <> ({PINS_OF_REQUESTOR})"  # noqa: S608 - constant
    ).rowcount


def assign_to_shortest_queue(connection: sqlite3.Connection, content: int) -> None:
    """If *content* waits, let it wait in the line of the holder who has the fewest contents before
    it, so that it is served as early as any of its holders allows."""
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

    shortest = min(holders, key=before)
    if shortest != present:
        connection.execute("UPDATE contents SET turn_of = ? WHERE id = ?", (shortest, content))


def _holders(connection: sqlite3.Connection, content: int) -> Iterable[tuple[int]]:
    return connection.execute(
        "SELECT number FROM pins JOIN requestors USING (requestor) WHERE content = ? LIMIT ?",
        (content, _MAX_HOLDERS),
    ).fetchall()
