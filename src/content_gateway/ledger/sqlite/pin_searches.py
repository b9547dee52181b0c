"""Turns searches for pins into SQLite's SQL. No I/O.

The columns and their JSON are those of pin_rows.py. Running statements is left to pins.py."""

from typing import Any, Final

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.pin_rows import as_json
from content_gateway.model.pins import Match, Search

_FAR: Final = 2**62  # later than any timestamp
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
        values["states"] = as_json(sorted(search.states))
    if search.cids:
        wanted.append("cid IN (SELECT value FROM json_each(:cids))")
        values["cids"] = as_json([str(cid) for cid in search.cids])
    if search.name is not None:
        wanted.append(_NAME_IS[search.match])
        values |= {"name": search.name, "folded": search.name.casefold()}
    if search.meta:
        wanted.append(
            "NOT EXISTS (SELECT 1 FROM json_each(:meta) AS asked WHERE NOT EXISTS"
            " (SELECT 1 FROM json_each(pins.meta) AS said"
            " WHERE said.key = asked.key AND said.atom = asked.atom))"
        )
        values["meta"] = as_json(search.meta)
    return " AND ".join(wanted), values
