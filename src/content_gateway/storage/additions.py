"""Pins added to the ledger, many in a few statements.

What waits for the writer is added together: contents that nobody had asked for in two statements,
however many they are, since each statement costs a change of threads (one by one they took more
than half of the service's time); the few others one by one. Knows the tables `pins` and
`contents`; when a transaction begins and ends is left to the database."""

import sqlite3
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from content_gateway.content.cid import Cid
from content_gateway.content.holdings import ContentState, Event, after
from content_gateway.content.moments import at_microseconds
from content_gateway.content.pins import Label, Pin
from content_gateway.storage.pin_rows import kept_label

_SECOND: Final = 1_000_000  # microseconds
_MILLISECOND: Final = 1_000


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
    texts = [str(addition.cid) for addition in additions]
    known = {
        text
        for (text,) in connection.execute(
            "SELECT value FROM json_each(?)"
            " WHERE EXISTS (SELECT 1 FROM contents WHERE cid = value)",
            (_json(texts),),
        )
    }
    fresh: dict[str, int] = {}
    others: list[int] = []
    for number, text in enumerate(texts):
        if text in known or text in fresh:
            others.append(number)
        else:
            fresh[text] = number
    moments = _Moments(connection, now, last)
    pins: list[Pin | None] = [None] * len(additions)
    if fresh:
        made = _add_fresh(connection, now, {t: additions[n] for t, n in fresh.items()}, moments)
        for number, pin in zip(fresh.values(), made, strict=True):
            pins[number] = pin
    for number in others:
        pins[number] = _add_known(connection, now, texts[number], additions[number], moments)
    return pins


def next_moment(now: int, last: int | None) -> int:
    """The moment of creation for a requestor's next pin, after *last*; in microseconds.

    The next free whole millisecond, as clients of the Pinning Service API may cut off the rest;
    where that would be more than a second ahead of *now*, the next free microsecond."""
    if last is None:
        return now // _MILLISECOND * _MILLISECOND
    whole = max(now // _MILLISECOND, last // _MILLISECOND + 1) * _MILLISECOND
    return whole if whole <= now + _SECOND else max(now, last + 1)


class _Moments:
    """The moments of creation in one transaction; a requestor has each of them once."""

    def __init__(self, connection: sqlite3.Connection, now: int, last: Mapping[str, int]) -> None:
        self._connection, self._now = connection, now
        self._last: dict[str, int | None] = dict(last)

    def next(self, requestor: str) -> int:
        if requestor not in self._last:
            (self._last[requestor],) = self._connection.execute(
                "SELECT max(created_at) FROM pins WHERE requestor = ?", (requestor,)
            ).fetchone()
        moment = self._last[requestor] = next_moment(self._now, self._last[requestor])
        return moment


def _add_fresh(
    connection: sqlite3.Connection, now: int, additions: dict[str, Addition], moments: _Moments
) -> list[Pin]:
    """Pins of contents that the ledger does not know, by canonical text."""
    connection.execute(
        "INSERT INTO contents (cid, state, next_at, updated_at)"
        " SELECT value, :state, :now, :now FROM json_each(:cids)",
        {
            "state": after(None, Event.PROMISED),
            "now": now // _MILLISECOND,
            "cids": _json(list(additions)),
        },
    )
    rows, pins = [], []
    for text, (requestor, cid, spelling, label) in additions.items():
        created_at = moments.next(requestor)
        rows.append((text, requestor, created_at, _kept(spelling, text), *kept_label(label)))
        pins.append(Pin(cid, spelling, at_microseconds(created_at), label))
    connection.execute(
        "INSERT INTO pins (requestor, content, created_at, spelling, name, origins, meta)"
        " SELECT value ->> 1, contents.id, value ->> 2, value ->> 3, value ->> 4, value ->> 5,"
        " value ->> 6 FROM json_each(?) CROSS JOIN contents ON cid = value ->> 0",
        (_json(rows),),
    )
    return pins


def _add_known(
    connection: sqlite3.Connection, now: int, text: str, addition: Addition, moments: _Moments
) -> Pin | None:
    """A pin of a content that the ledger knows."""
    requestor, cid, spelling, label = addition
    content, state = connection.execute(
        "SELECT id, state FROM contents WHERE cid = ?", (text,)
    ).fetchone()
    if connection.execute(
        "SELECT 1 FROM pins WHERE requestor = ? AND content = ?", (requestor, content)
    ).fetchone():
        return None
    _promise(connection, content, ContentState(state), now // _MILLISECOND)
    created_at = moments.next(requestor)
    row = (requestor, content, created_at, _kept(spelling, text), *kept_label(label))
    connection.execute(
        "INSERT INTO pins (requestor, content, created_at, spelling, name, origins, meta)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    return Pin(cid, spelling, at_microseconds(created_at), label)


def _promise(connection: sqlite3.Connection, content: int, state: ContentState, now: int) -> None:
    """What a further requestor means for a content that the ledger knows."""
    promised = after(state, Event.PROMISED)
    if promised is not state:
        connection.execute(
            "UPDATE contents SET state = :state, generation = generation + 1, attempts = 0,"
            " looks = 0, error = NULL, replicas = 0, peers = NULL, blocks = 0, size = 0,"
            " updated_at = :now,"
            " next_at = CASE WHEN lease_owner IS NULL THEN :now ELSE next_at END WHERE id = :id",
            {"state": promised, "now": now, "id": content},
        )
    elif state is not ContentState.PINNED:
        # A content that waits out a long gap is looked at again now that someone asks.
        connection.execute(
            "UPDATE contents SET next_at = min(next_at, ?)"
            " WHERE id = ? AND next_at IS NOT NULL AND lease_owner IS NULL",
            (now, content),
        )


def _kept(spelling: str, text: str) -> str | None:
    return None if spelling == text else spelling


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
