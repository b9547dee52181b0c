"""Turns searches for pins into PostgreSQL's SQL. No I/O.

A search is built from constants only. The columns and their JSON are those of ledger/pin_rows.py;
running statements is left to pins.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.pin_rows import as_json
from content_gateway.model.pins import MAX_PAGE_BYTES, Match, Search
from content_gateway.postgres.transactions import Row

_FAR: Final = 2**62  # later than any timestamp
TABLES: Final = (
    "pins p JOIN contents c ON c.id = p.content LEFT JOIN work w ON w.content = p.content"
)
_FOLDED: Final = "coalesce(p.folded, p.name)"
_NAME_IS: Final[dict[Match, LiteralString]] = {
    Match.EXACT: "p.name = %(name)s",
    Match.IEXACT: f"{_FOLDED} = %(folded)s",
    Match.PARTIAL: "strpos(p.name, %(name)s) > 0",
    Match.IPARTIAL: f"strpos({_FOLDED}, %(folded)s) > 0",
}
_REQUESTOR: Final = "p.requestor = (SELECT number FROM requestors WHERE requestor = %(requestor)s)"
_BYTES: Final = (
    "octet_length(concat(c.cid, p.spelling, p.name, p.origins, p.meta, c.state, c.error))"
)


@dataclass(frozen=True, slots=True)
class Statements:
    """A search: the *page* of it, with one row more than it shows where there is one, the *count*
    of all that pass, and the values of both."""

    page: LiteralString
    count: LiteralString
    values: dict[str, Any]

    def may_be_cut(self, rows: Sequence[Row]) -> bool:
        """Whether *rows* may be fewer than there are, for the bytes that they have."""
        return sum(len(value) for row in rows for value in row if isinstance(value, str)) > (
            MAX_PAGE_BYTES // 8
        )


def status_columns(peers: LiteralString) -> LiteralString:
    """The columns of a pin's status, *peers* among them, in the order of `pin_rows.STATUS`."""
    return (
        "c.cid, p.spelling, p.created_at, p.name, p.origins, p.meta, c.state, c.replicas, c.wanted,"
        f" {peers}, c.blocks, c.size, c.attempts, c.error,"
        " CASE WHEN w.lease_owner IS NULL THEN w.due_at END, c.updated_at"
    )


# A cluster's peers are many, and no list shows them.
LISTED: Final[LiteralString] = status_columns("NULL::text")


def statement_of(requestor: str, search: Search) -> Statements:
    """The statements of *search* among the pins of *requestor*."""
    wanted: list[LiteralString] = [_REQUESTOR]
    values: dict[str, Any] = {
        "requestor": requestor,
        "cursor": _FAR if search.cursor is None else microseconds(search.cursor),
        "limit": search.limit + 1,
        "bytes": MAX_PAGE_BYTES,
    }
    if search.before is not None:
        wanted.append("p.created_at < %(before)s")
        values["before"] = microseconds(search.before)
    if search.after is not None:
        wanted.append("p.created_at > %(after)s")
        values["after"] = microseconds(search.after)
    if search.states is not None:
        wanted.append("c.state = ANY(%(states)s::text[])")
        values["states"] = [state.value for state in sorted(search.states)]
    if search.cids:
        wanted.append("c.cid = ANY(%(cids)s::text[])")
        values["cids"] = [str(cid) for cid in search.cids]
    if search.name is not None:
        wanted.append(_NAME_IS[search.match])
        values |= {"name": search.name, "folded": search.name.casefold()}
    if search.meta:
        wanted.append("p.meta::jsonb @> %(meta)s::jsonb")
        values["meta"] = as_json(search.meta)
    return _statements(" AND ".join(wanted), values, is_whole=len(wanted) == 1)


def _statements(where: LiteralString, values: dict[str, Any], *, is_whole: bool) -> Statements:
    # The rows end with the first that the page has no room for; later ones are not sent.
    page = (
        f"SELECT {_names()} FROM (SELECT {LISTED}, sum({_BYTES}) OVER"  # noqa: S608 - constants
        " (ORDER BY p.created_at DESC ROWS UNBOUNDED PRECEDING) -"
        f" {_BYTES} FROM {TABLES} WHERE {where} AND p.created_at < %(cursor)s"
        f" ORDER BY p.created_at DESC LIMIT %(limit)s) AS {_listed()}"
        " WHERE before <= %(bytes)s ORDER BY c3 DESC"
    )
    count: LiteralString = (
        f"SELECT count(*) FROM pins p JOIN contents c ON c.id = p.content WHERE {where}"  # noqa: S608
    )
    if is_whole:  # it is counted already
        count = "SELECT coalesce((SELECT pins FROM requestors WHERE requestor = %(requestor)s), 0)"
    elif not {"states", "cids"} & values.keys():
        count = f"SELECT count(*) FROM pins p WHERE {where}"  # noqa: S608 - constants
    return Statements(page, count, values)


def _names() -> LiteralString:
    return "c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16"


def _listed() -> LiteralString:
    return f"listed({_names()}, before)"
