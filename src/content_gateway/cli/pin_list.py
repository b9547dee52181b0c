"""`pin ls --all-keys`: the pins of every requestor, one requestor after the other.

Knows the order of requestors, that of their ids, and the cursor that says where in it a page ends.
One page is in memory at a time. What a line looks like is left to pin_view.py."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click
import msgspec

from content_gateway.cli import pin_view
from content_gateway.cli.requestor_names import RequestorNames
from content_gateway.model.pins import Page, PinStatus, Search, cursor_behind, parse_cursor

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_PAGE: Final = 10_000  # each page counts all that pass, so few and large ones
_SEPARATOR: Final = "/"  # of a requestor's id and the cursor of its pins


async def list_all_keys(
    gateway: "Application", search: Search, cursor: str | None, *, every: bool, as_json: bool
) -> str | None:
    """Print the pins that *search* finds behind *cursor*, each with its key: as many as its limit,
    or *every* one. The cursor of those that follow; None at the end.

    Raises InvalidCursor and StorageUnavailable."""
    from content_gateway.ledger.requestors import requestor_from

    names = RequestorNames(gateway.issued_keys.all())
    first, begin = _parse(cursor)
    here = requestor_from(gateway.ledger, first)
    if here != first:
        begin = None  # of a requestor that has no pins any more
    left = search.limit
    while here is not None:
        limit = _PAGE if every else left
        asked = replace(search, cursor=begin, limit=limit)
        page = await gateway.pinning.search(here, asked, _as_it_is)
        if page.pins:
            lines = [_line(status, here, names, as_json=as_json) for status in page.pins]
            click.echo("\n".join(lines))  # at once: every echo is a write
        left -= len(page.pins)
        last = page.pins[-1].pin if page.more else None
        begin = None if last is None else last.created_at
        here = here if page.more else requestor_from(gateway.ledger, here + "\0")
        if here is not None and left <= 0 and not every:
            return here + _SEPARATOR + ("" if last is None else cursor_behind(last))
    return None


def _parse(cursor: str | None) -> tuple[str, datetime | None]:
    requestor, _, behind = (cursor or "").rpartition(_SEPARATOR)
    return requestor, parse_cursor(behind) if behind else None


def _line(status: PinStatus, requestor: str, names: RequestorNames, *, as_json: bool) -> str:
    name = names.of(requestor)
    if not as_json:
        return pin_view.table_line(status, f"{name:{names.width}}")
    shown = {"key": name, "keyId": requestor} | pin_view.listed(status)
    return msgspec.json.encode(shown).decode()


def _as_it_is(page: Page) -> Page:
    return page
