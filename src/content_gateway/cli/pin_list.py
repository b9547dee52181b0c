"""`content-gateway pin ls`: the pins of one requestor, or of all, one requestor after the other.

Knows the order of requestors, that of their ids, and the cursor that says where in it a page ends.
One page is in memory at a time. What a line looks like is left to pin_view.py."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click
import msgspec
from click.core import ParameterSource

from content_gateway.cli import common, pin_view
from content_gateway.cli.requestor_names import RequestorNames
from content_gateway.cli.which_ledger import existing_ledger
from content_gateway.model.content_state import PIN_STATES, ContentState
from content_gateway.model.pins import Page, PinStatus, Search, cursor_behind, parse_cursor
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_PAGE: Final = 10_000  # each page counts all that pass, so few and large ones
_SEPARATOR: Final = "/"  # of a requestor's id and the cursor of its pins


@click.command("ls", epilog="Example: content-gateway pin ls --status failed --all --json")
@click.option(
    "--status",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in PIN_STATES]),
    help="Pins in this state only; can be given more than once.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="So many at most.",
)
@click.option("--cursor", help="Where the page before said that this one begins.")
@click.option("--all", "every", is_flag=True, help="All of them, page after page.")
@click.option("--all-keys", is_flag=True, help="Those of every key, and which key's each is.")
@common.whose_options
@common.ledger_options
@existing_ledger
def list_pins(
    *,
    states: tuple[str, ...],
    limit: int,
    cursor: str | None,
    every: bool,
    all_keys: bool,
    whose: common.Whose,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """List pins, newest first: status, replicas, bytes, time, CID and name.

    With --json one object a line. Where more follow, standard error says with which cursor. With
    --all-keys the key stands before each, the operator's own pins among them; key after key."""
    search = Search(states=frozenset(map(ContentState, states)) or None, limit=limit)
    if all_keys:
        _list_all_keys(whose, loaded, search, cursor, every=every, as_json=as_json)
        return
    search = replace(
        search,
        cursor=None if cursor is None else parse_cursor(cursor),
        limit=_PAGE if every else limit,
    )

    async def ask(gateway: "Application") -> Page:
        requestor = await common.requestor_meant(gateway, loaded, whose)
        return await _list(gateway, requestor, search, every=every, as_json=as_json)

    page = common.run_on(loaded.settings, ask)
    if not page.count:
        click.echo("There is no such pin.", err=True)
    if page.more:
        following = cursor_behind(page.pins[-1].pin)
        click.echo(f"{page.count:,} in all; more: --cursor {following}", err=True)


def _list_all_keys(
    whose: common.Whose,
    loaded: Loaded,
    search: Search,
    cursor: str | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    source = click.get_current_context().get_parameter_source("key")
    if whose.key_name or whose.key_id or source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--all-keys does not go with one key.")

    async def ask(gateway: "Application") -> str | None:
        return await _print_all_keys(gateway, search, cursor, every=every, as_json=as_json)

    following = common.run_on(loaded.settings, ask)
    if following is not None:
        click.echo(f"more: --cursor {following}", err=True)


async def _list(
    gateway: "Application", requestor: str, search: Search, *, every: bool, as_json: bool
) -> Page:
    """Print the page that *search* finds, and with *every* all behind it; the last one."""
    headings = [] if as_json else [pin_view.headings()]
    while True:
        page = await gateway.pinning.search(requestor, search, _as_it_is)
        if as_json:
            lines = [msgspec.json.encode(pin_view.listed(pin)).decode() for pin in page.pins]
        else:
            lines = [pin_view.table_line(pin) for pin in page.pins]
        if lines:
            click.echo("\n".join(headings + lines))  # at once: every echo is a write
            headings = []
        if not (every and page.more):
            return page
        search = replace(search, cursor=page.pins[-1].pin.created_at)


async def _print_all_keys(
    gateway: "Application", search: Search, cursor: str | None, *, every: bool, as_json: bool
) -> str | None:
    """Print the pins that *search* finds behind *cursor*, each with its key: as many as its limit,
    or *every* one. The cursor of those that follow; None at the end.

    Raises InvalidCursor and StorageUnavailable."""
    requestor_from = gateway.ledger.requestor_from
    names = RequestorNames(await gateway.issued_keys.all())
    first, begin = _parse(cursor)
    here = await requestor_from(first)
    if here != first:
        begin = None  # of a requestor that has no pins any more
    left = search.limit
    headings = [] if as_json else [pin_view.headings(f"{'KEY':{names.width}}")]
    while here is not None:
        limit = _PAGE if every else left
        asked = replace(search, cursor=begin, limit=limit)
        page = await gateway.pinning.search(here, asked, _as_it_is)
        if page.pins:
            lines = [_line(status, here, names, as_json=as_json) for status in page.pins]
            click.echo("\n".join(headings + lines))  # at once: every echo is a write
            headings = []
        left -= len(page.pins)
        last = page.pins[-1].pin if page.more else None
        begin = None if last is None else last.created_at
        here = here if page.more else await requestor_from(here + "\0")
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
