"""Converts rows of `pins` and `contents` to values. No I/O.

Knows the columns, which both databases have, and the JSON in them. Statements are run by pins.py of
each."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import at_microseconds, at_milliseconds
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Peer
from content_gateway.model.pins import (
    MAX_PAGE_BYTES,
    NO_LABEL,
    Label,
    Pin,
    PinStatus,
)

_PIN: Final = "cid, spelling, created_at, name, origins, meta"
_STATUS: Final = (
    f"{_PIN}, state, replicas, wanted, {{peers}}, blocks, size, attempts, error,"
    " CASE WHEN lease_owner IS NULL THEN next_at END, updated_at"
)
STATUS: Final = _STATUS.format(peers="peers")
LISTED: Final = _STATUS.format(peers="NULL")  # a cluster's peers are many, and no list shows them


def status_of(row: tuple[Any, ...]) -> PinStatus:
    """The value of a row with the columns STATUS or LISTED."""
    cid, spelling, created_at, name, origins, meta, state, *rest = row
    replicas, wanted, peers, blocks, size, attempts, error, next_at, updated_at = rest
    label = NO_LABEL
    if name is not None or origins is not None or meta is not None:
        label = Label(
            name,
            tuple(msgspec.json.decode(origins)) if origins else (),
            msgspec.json.decode(meta) if meta else {},
        )
    return PinStatus(
        pin=Pin(Cid.parse(cid), spelling or cid, at_microseconds(created_at), label),
        state=ContentState(state),
        replicas=replicas,
        wanted=wanted,
        peers=msgspec.json.decode(peers, type=list[Peer]) if peers else (),
        blocks=blocks,
        size=size,
        attempts=attempts,
        error=error,
        next_at=None if next_at is None else at_milliseconds(next_at),
        updated_at=at_milliseconds(updated_at),
    )


def page_of(rows: Iterable[tuple[Any, ...]], limit: int) -> tuple[list[PinStatus], bool]:
    """The first *limit* of *rows* as values, fewer if their text exceeds MAX_PAGE_BYTES; and
    whether there are more. Later rows are not read."""
    pins: list[PinStatus] = []
    size = 0
    for row in rows:
        size += text_in(row)
        if len(pins) == limit or (pins and size > MAX_PAGE_BYTES):
            return pins, True
        pins.append(status_of(row))
    return pins, False


def text_in(row: tuple[Any, ...]) -> int:
    """The number of characters in all text columns of *row*."""
    return sum(len(value) for value in row if isinstance(value, str))


def label_columns(label: Label) -> tuple[str | None, str | None, str | None, str | None]:
    """The values of the columns name, folded, origins and meta.

    *folded* is NULL if it equals the name, which is usual."""
    if label is NO_LABEL:
        return None, None, None, None
    folded = None if label.name is None else label.name.casefold()
    return (
        label.name,
        None if folded == label.name else folded,
        as_json(label.origins) if label.origins else None,
        as_json(label.meta) if label.meta else None,
    )


def as_json(value: object) -> str:
    """*value* as the text of a column."""
    return msgspec.json.encode(value).decode()
