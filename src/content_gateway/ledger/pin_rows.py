"""Converts rows of `pins` and `contents` to values, and searches to SQL. No I/O.

Knows the columns and the JSON in them. Running statements is left to pins.py."""

from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import at_microseconds, at_milliseconds, microseconds
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Peer
from content_gateway.model.pins import NO_LABEL, Label, Match, Pin, PinStatus, Search

_FAR: Final = 2**62  # later than any moment
_PIN: Final = "cid, spelling, created_at, name, origins, meta"
_STATUS: Final = (
    f"{_PIN}, state, replicas, wanted, {{peers}}, blocks, size, attempts, error,"
    " CASE WHEN lease_owner IS NULL THEN next_at END, updated_at"
)
STATUS: Final = _STATUS.format(peers="peers")
LISTED: Final = _STATUS.format(peers="NULL")  # a cluster's peers are many, and no list shows them
_FOLDED: Final = "coalesce(folded, name)"
_NAME_IS: Final = {
    Match.EXACT: "name = :name",
    Match.IEXACT: f"{_FOLDED} = :folded",
    Match.PARTIAL: "instr(name, :name) > 0",
    Match.IPARTIAL: f"instr({_FOLDED}, :folded) > 0",
}


def conditions_of(requestor: str, search: Search) -> tuple[str, dict[str, Any]]:
    """The WHERE clause of *search*, built from constants only, and its values."""
    wanted = ["requestor = :requestor"]
    values: dict[str, Any] = {
        "requestor": requestor,
        "cursor": _FAR if search.cursor is None else microseconds(search.cursor),
        "limit": search.limit + 1,
    }
    if search.before is not None:
        wanted.append("created_at < :before")
        values["before"] = microseconds(search.before)
    if search.after is not None:
        wanted.append("created_at > :after")
        values["after"] = microseconds(search.after)
    if search.states is not None:
        wanted.append("state IN (SELECT value FROM json_each(:states))")
        values["states"] = _json(sorted(search.states))
    if search.cids:
        wanted.append("cid IN (SELECT value FROM json_each(:cids))")
        values["cids"] = _json([str(cid) for cid in search.cids])
    if search.name is not None:
        wanted.append(_NAME_IS[search.match])
        values |= {"name": search.name, "folded": search.name.casefold()}
    if search.meta:
        wanted.append(
            "NOT EXISTS (SELECT 1 FROM json_each(:meta) AS asked WHERE NOT EXISTS"
            " (SELECT 1 FROM json_each(pins.meta) AS said"
            " WHERE said.key = asked.key AND said.atom = asked.atom))"
        )
        values["meta"] = _json(search.meta)
    return " AND ".join(wanted), values


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
        _json(label.origins) if label.origins else None,
        _json(label.meta) if label.meta else None,
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
