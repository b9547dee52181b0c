"""Pins added to the ledger, many in a few statements.

What waits for the writer is added together: contents that nobody had asked for in two statements
of many rows, since each statement costs a change of threads (one by one they took more than half
of the service's time); the few others one by one. Knows the tables `pins` and
`contents`; when a transaction begins and ends is left to the database."""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from content_gateway.codecs.timestamps import at_microseconds
from content_gateway.ledger.pin_rows import kept_label
from content_gateway.ledger.requestors import give_to_soonest, number_for
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Event, after
from content_gateway.model.pins import Label, Pin

_SECOND: Final = 1_000_000  # microseconds
_MILLISECOND: Final = 1_000
# SQLite compiles a statement again for each number of rows, and Python keeps a hundred or so.
MOST_ROWS: Final = 32
_CONTENTS: Final = (
    "INSERT INTO contents (id, cid, state, next_at, updated_at, turn_of) VALUES ",
    f"(?, ?, '{after(None, Event.PROMISED)}', ?, ?, ?)",
)
_PINS: Final = (
    "INSERT INTO pins"
    " (requestor, content, created_at, spelling, name, folded, origins, meta) VALUES ",
    "(?, ?, ?, ?, ?, ?, ?, ?)",
)


class Addition(NamedTuple):
    """A pin that somebody wants."""

    requestor: str
    cid: Cid
    spelling: str
    label: Label


def add_all(
    connection: sqlite3.Connection,
    now: int,
    additions: Sequence[Addition],
    last: Mapping[str, int] = MappingProxyType({}),
) -> list[Pin | None]:
    """Add them all, at *now* (microseconds since 1970): each pin, or None where it is held already.

    The contents of new pins are queued, in the same transaction. *last* has moments of creation
    that are not to be given out again although their pins are gone, by requestor."""
    requestors = _Requestors(connection, now, last)
    pins: list[Pin | None] = []
    for start in range(0, len(additions), MOST_ROWS):
        pins += _add_part(connection, now, additions[start : start + MOST_ROWS], requestors)
    return pins


def next_moment(now: int, last: int | None) -> int:
    """The moment of creation for a requestor's next pin, after *last*; in microseconds.

    The next free whole millisecond, as clients of the Pinning Service API may cut off the rest;
    where that would be more than a second ahead of *now*, the next free microsecond."""
    if last is None:
        return now // _MILLISECOND * _MILLISECOND
    whole = max(now // _MILLISECOND, last // _MILLISECOND + 1) * _MILLISECOND
    return whole if whole <= now + _SECOND else max(now, last + 1)


class _Requestors:
    """What one transaction knows of its requestors: their numbers, and the moments of creation that
    it gives out; a requestor has each of them once."""

    def __init__(self, connection: sqlite3.Connection, now: int, last: Mapping[str, int]) -> None:
        self._connection, self._now = connection, now
        self._last: dict[str, int | None] = dict(last)
        self._numbers: dict[str, int] = {}

    def number(self, requestor: str) -> int:
        if requestor not in self._numbers:
            self._know(requestor)
        return self._numbers[requestor]

    def next_moment(self, requestor: str) -> int:
        if requestor not in self._last:
            self._know(requestor)
        moment = self._last[requestor] = next_moment(self._now, self._last[requestor])
        return moment

    def _know(self, requestor: str) -> None:
        # Both at once: each statement costs more than what it reads.
        last, number = self._connection.execute(
            "SELECT max(created_at), (SELECT number FROM requestors WHERE requestor = :requestor)"
            " FROM pins WHERE requestor = :requestor",
            {"requestor": requestor},
        ).fetchone()
        self._last.setdefault(requestor, last)
        self._numbers[requestor] = number or number_for(self._connection, requestor)


def _add_part(
    connection: sqlite3.Connection, now: int, additions: Sequence[Addition], requestors: _Requestors
) -> list[Pin | None]:
    """What `add_all` does, for no more than MOST_ROWS."""
    fresh = _queue_fresh(connection, now, additions, requestors)
    rows: list[tuple[Any, ...]] = []
    pins: list[Pin | None] = []
    for content, (requestor, cid, spelling, label) in zip(fresh, additions, strict=True):
        if content is None:
            pins.append(None)
            continue
        created_at = requestors.next_moment(requestor)
        rows.append((requestor, content, created_at, _kept(spelling, cid), *kept_label(label)))
        pins.append(Pin(cid, spelling, at_microseconds(created_at), label))
    _insert(connection, _PINS, rows)
    # Last, as somebody may want the same content twice.
    for number, content in enumerate(fresh):
        if content is None:
            pins[number] = _add_known(connection, now, additions[number], requestors)
    return pins


def _queue_fresh(
    connection: sqlite3.Connection, now: int, additions: Sequence[Addition], requestors: _Requestors
) -> list[int | None]:
    """Queue the contents that the ledger does not know; the number of each, None for the others.

    A content that is wanted several times is new only once."""
    texts = [str(addition.cid) for addition in additions]
    marks = _marks("?", len(texts))
    found = connection.execute(f"SELECT cid FROM contents WHERE cid IN ({marks})", texts)  # noqa: S608
    known = {text for (text,) in found}
    # Without any row, max() gives a row all the same.
    (last,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'contents'"
    ).fetchone()
    numbers: list[int | None] = []
    rows: list[tuple[Any, ...]] = []
    at = now // _MILLISECOND
    for text, addition in zip(texts, additions, strict=True):
        if text in known:
            numbers.append(None)
            continue
        known.add(text)
        last += 1
        numbers.append(last)
        rows.append((last, text, at, at, requestors.number(addition.requestor)))
    _insert(connection, _CONTENTS, rows)
    return numbers


def _add_known(
    connection: sqlite3.Connection, now: int, addition: Addition, requestors: _Requestors
) -> Pin | None:
    """A pin of a content that the ledger knows."""
    requestor, cid, spelling, label = addition
    content, state = connection.execute(
        "SELECT id, state FROM contents WHERE cid = ?", (str(cid),)
    ).fetchone()
    if connection.execute(
        "SELECT 1 FROM pins WHERE requestor = ? AND content = ?", (requestor, content)
    ).fetchone():
        return None
    number = requestors.number(requestor)
    is_shared = _promise(connection, content, ContentState(state), now // _MILLISECOND, number)
    created_at = requestors.next_moment(requestor)
    row = (requestor, content, created_at, _kept(spelling, cid), *kept_label(label))
    _insert(connection, _PINS, [row])
    if is_shared:
        give_to_soonest(connection, content)
    return Pin(cid, spelling, at_microseconds(created_at), label)


def _promise(
    connection: sqlite3.Connection, content: int, state: ContentState, now: int, requestor: int
) -> bool:
    """What a further requestor, by its number, means for a content that the ledger knows; whether
    it waits with others for it."""
    promised = after(state, Event.PROMISED)
    if promised is not state:
        connection.execute(
            "UPDATE contents SET state = :state, generation = generation + 1, attempts = 0,"
            " status_checks = 0, error = NULL, replicas = 0, peers = NULL, blocks = 0, size = 0,"
            " updated_at = :now, turn_of = :requestor,"
            " next_at = CASE WHEN lease_owner IS NULL THEN :now ELSE next_at END WHERE id = :id",
            {"state": promised, "now": now, "id": content, "requestor": requestor},
        )
        return False
    if state is not ContentState.PINNED:
        trigger(connection, content, now)
    return state is not ContentState.PINNED


def trigger(connection: sqlite3.Connection, content: int, now: int) -> None:
    """A content that waits out a long backoff is checked again, at *now* (milliseconds since 1970),
    as somebody asks for it."""
    connection.execute(
        "UPDATE contents SET next_at = min(next_at, ?)"
        " WHERE id = ? AND next_at IS NOT NULL AND lease_owner IS NULL",
        (now, content),
    )


def _kept(spelling: str, cid: Cid) -> str | None:
    return None if spelling == str(cid) else spelling


def _insert(
    connection: sqlite3.Connection, statement: tuple[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert *rows*, if any, by one *statement*: its beginning, and the marks of one row."""
    if rows:
        beginning, marks = statement
        connection.execute(beginning + _marks(marks, len(rows)), list(chain.from_iterable(rows)))


@cache
def _marks(row: str, number: int) -> str:
    """The places of so many rows."""
    return ",".join([row] * number)
