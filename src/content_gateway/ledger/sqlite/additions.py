"""Adds pins to the ledger, many with a few statements.

Pins that wait for the writer are added together: new contents with two multi-row statements, since
each statement costs a switch of threads (one by one they took more than half of the service's
time); the others one by one. Knows the tables `pins` and `contents`."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from content_gateway.codecs.timestamps import at_microseconds
from content_gateway.ledger.additions import (
    Added,
    Addition,
    Refusal,
    next_timestamp,
    spelling_column,
)
from content_gateway.ledger.pin_rows import label_columns
from content_gateway.ledger.sqlite.requestors import (
    assign_to_shortest_queue,
    count_pins,
    number_for,
)
from content_gateway.model.content_state import ContentState, Event, after
from content_gateway.model.pins import Pin

_MILLISECOND: Final = 1_000
# Each number of rows is a statement of its own to compile; Python's sqlite3 caches 128 of them.
MAX_ROWS: Final = 32
_CONTENTS: Final = (
    "INSERT INTO contents (id, cid, state, next_at, updated_at, turn_of) VALUES ",
    f"(?, ?, '{after(None, Event.PROMISED)}', ?, ?, ?)",
)
_PINS: Final = (
    "INSERT INTO pins"
    " (requestor, content, created_at, spelling, name, folded, origins, meta) VALUES ",
    "(?, ?, ?, ?, ?, ?, ?, ?)",
)


def add_all(
    connection: sqlite3.Connection,
    now: int,
    additions: Sequence[Addition],
    last: Mapping[str, int] = MappingProxyType({}),
) -> list[Added]:
    """Add all at *now* (microseconds since 1970). Returns each pin, None for one already held.

    A revoked key adds nothing from the transaction on that revoked it, also what was under way.

    The contents of new pins are queued in the same transaction. *last*: by requestor, the creation
    time of a pin that was just deleted, which must not be used again."""
    requestors = _Requestors(connection, now, last)
    pins: list[Added] = []
    for start in range(0, len(additions), MAX_ROWS):
        part = additions[start : start + MAX_ROWS]
        if requestors.may_be_refused(part):
            for addition in part:
                pins += _add_unless_refused(connection, now, addition, requestors)
        else:
            pins += _add_part(connection, now, part, requestors)
    requestors.store_counts()
    return pins


class _Requestors:
    """The requestors of one transaction: their numbers, next creation times and pins, and whether
    their keys were revoked."""

    def __init__(self, connection: sqlite3.Connection, now: int, last: Mapping[str, int]) -> None:
        self._connection, self._now = connection, now
        self._last: dict[str, int | None] = dict(last)
        self._numbers: dict[str, int] = {}
        self._pins: dict[str, int] = {}  # before this transaction
        self._added: Counter[str] = Counter()
        self._revoked: set[str] = set()

    def number(self, requestor: str) -> int:
        if requestor not in self._numbers:
            self._load(requestor)
        return self._numbers[requestor]

    def next_timestamp(self, requestor: str) -> int:
        if requestor not in self._last:
            self._load(requestor)
        timestamp = self._last[requestor] = next_timestamp(self._now, self._last[requestor])
        self._added[requestor] += 1  # each timestamp is for one pin
        return timestamp

    def has_reached(self, addition: Addition) -> bool:
        """Whether its requestor has as many pins as it may have."""
        return bool(addition.most) and self._pins_of(addition.requestor) >= addition.most

    def is_revoked(self, requestor: str) -> bool:
        """Whether it is a key that was revoked."""
        self.number(requestor)
        return requestor in self._revoked

    def may_be_refused(self, additions: Sequence[Addition]) -> bool:
        """Whether one of *additions* is by a revoked key, or all of them, were each a new pin,
        would be too many for a requestor."""
        if any(self.is_revoked(each.requestor) for each in additions):
            return True
        limited = Counter(each.requestor for each in additions if each.most)
        return any(
            self._pins_of(each.requestor) + limited[each.requestor] > each.most
            for each in additions
            if each.most
        )

    def store_counts(self) -> None:
        """Count what was added."""
        for requestor, number in self._added.items():
            count_pins(self._connection, requestor, number)

    def _pins_of(self, requestor: str) -> int:
        if requestor not in self._pins:
            self._load(requestor)
        return self._pins[requestor] + self._added[requestor]

    def _load(self, requestor: str) -> None:
        # One statement for all: a statement costs more than the rows it reads.
        last, number, pins, revoked_at = self._connection.execute(
            "SELECT max(created_at), (SELECT number FROM requestors WHERE requestor = :requestor),"
            " (SELECT pins FROM requestors WHERE requestor = :requestor),"
            " (SELECT revoked_at FROM api_keys WHERE id = :requestor)"
            " FROM pins WHERE requestor = :requestor",
            {"requestor": requestor},
        ).fetchone()
        if revoked_at is not None:
            self._revoked.add(requestor)
        self._pins[requestor] = pins or 0
        self._last.setdefault(requestor, last)
        self._numbers[requestor] = number or number_for(self._connection, requestor)


def _add_unless_refused(
    connection: sqlite3.Connection, now: int, addition: Addition, requestors: _Requestors
) -> Sequence[Added]:
    """Add one pin, unless its requestor has as many as it may have, and what is held stays held; or
    unless its key was revoked."""
    if requestors.is_revoked(addition.requestor):
        return [Refusal.REVOKED]
    if requestors.has_reached(addition):
        values = (addition.requestor, str(addition.cid))
        held = connection.execute(
            "SELECT 1 FROM pins WHERE requestor = ?"
            " AND content = (SELECT id FROM contents WHERE cid = ?)",
            values,
        ).fetchone()
        return [None if held else Refusal.LIMIT_REACHED]
    return _add_part(connection, now, [addition], requestors)


def _add_part(
    connection: sqlite3.Connection, now: int, additions: Sequence[Addition], requestors: _Requestors
) -> list[Pin | None]:
    """As `add_all`, for at most MAX_ROWS."""
    new = _queue_new(connection, now, additions, requestors)
    rows: list[tuple[Any, ...]] = []
    pins: list[Pin | None] = []
    for content, (requestor, cid, spelling, label, _) in zip(new, additions, strict=True):
        if content is None:
            pins.append(None)
            continue
        created_at = requestors.next_timestamp(requestor)
        rows.append(
            (requestor, content, created_at, spelling_column(spelling, cid), *label_columns(label))
        )
        pins.append(Pin(cid, spelling, at_microseconds(created_at), label))
    _insert(connection, _PINS, rows)
    # After the insert: an addition may be a second pin of a content that was new above.
    for number, content in enumerate(new):
        if content is None:
            pins[number] = _add_known(connection, now, additions[number], requestors)
    return pins


def _queue_new(
    connection: sqlite3.Connection, now: int, additions: Sequence[Addition], requestors: _Requestors
) -> list[int | None]:
    """Queue the contents that the ledger does not know; returns the number of each, None for the
    others. Of several additions of one content only the first is new."""
    texts = [str(addition.cid) for addition in additions]
    marks = _marks("?", len(texts))
    found = connection.execute(f"SELECT cid FROM contents WHERE cid IN ({marks})", texts)  # noqa: S608
    known = {text for (text,) in found}
    # max() makes one row also from an empty table.
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
    """Add a pin of a content that the ledger knows."""
    requestor, cid, spelling, label, _ = addition
    content, state = connection.execute(
        "SELECT id, state FROM contents WHERE cid = ?", (str(cid),)
    ).fetchone()
    if connection.execute(
        "SELECT 1 FROM pins WHERE requestor = ? AND content = ?", (requestor, content)
    ).fetchone():
        return None
    number = requestors.number(requestor)
    is_shared = _requeue_promised(
        connection, content, ContentState(state), now // _MILLISECOND, number
    )
    created_at = requestors.next_timestamp(requestor)
    row = (requestor, content, created_at, spelling_column(spelling, cid), *label_columns(label))
    _insert(connection, _PINS, [row])
    if is_shared:
        assign_to_shortest_queue(connection, content)
    return Pin(cid, spelling, at_microseconds(created_at), label)


def _requeue_promised(
    connection: sqlite3.Connection, content: int, state: ContentState, now: int, requestor: int
) -> bool:
    """Queue a known content again if it was being released; if it is not pinned, make it due.
    Returns whether *requestor* now waits for it together with others."""
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
    """Make a content that waits due at *now* (milliseconds since 1970), unless it is leased."""
    connection.execute(
        "UPDATE contents SET next_at = min(next_at, ?)"
        " WHERE id = ? AND next_at IS NOT NULL AND lease_owner IS NULL",
        (now, content),
    )


def _insert(
    connection: sqlite3.Connection, statement: tuple[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert *rows*, if any, by one *statement*: its beginning, and the marks of one row."""
    if rows:
        beginning, marks = statement
        connection.execute(beginning + _marks(marks, len(rows)), list(chain.from_iterable(rows)))


@cache
def _marks(row: str, number: int) -> str:
    """The placeholders of so many rows."""
    return ",".join([row] * number)
