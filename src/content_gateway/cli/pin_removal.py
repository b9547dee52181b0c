"""Removing every pin of a requestor: asked for twice, done page by page.

Each pin is removed as any other is, many at the same time, since the ledger commits them in groups.
What is removed stays so: where it was interrupted it is run again, and goes on."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.status_line import StatusLine
from content_gateway.concurrency.gather import all_of
from content_gateway.errors import PinNotFound
from content_gateway.model.pins import Page, Pin, Search
from content_gateway.pins.pinning import Pinning

_PAGE: Final = 10_000  # each page counts all that pass, so few and large ones
_UNDER_WAY: Final = 256  # as many as the ledger commits in one group

yes_option = click.option("--yes", is_flag=True, help="Do not ask whether it is meant.")


def require_terminal(*, yes: bool) -> None:
    """Raises click.UsageError where nobody can be asked and *yes* was not given."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on: --yes says that it is meant.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask *question* on the terminal; raises click.Abort unless the answer is yes."""
    if not yes:
        click.confirm(question, abort=True, err=True)


async def count_of(pinning: Pinning, requestor: str) -> int:
    """How many pins *requestor* has."""
    return await pinning.search(requestor, Search(limit=1), lambda page: page.count)


async def remove_all(
    pinning: Pinning, requestor: str, *, by_operator: bool, line: StatusLine
) -> int:
    """Remove every pin that *requestor* has, newest first; how many they were.

    Of those that are added meanwhile some stay. Raises StorageUnavailable."""

    removed, search = 0, Search(limit=_PAGE)

    async def remove(pin: Pin) -> None:
        nonlocal removed
        with suppress(PinNotFound):  # removed, or replaced, by somebody else
            await pinning.remove(requestor, pin.cid, pin.created_at, by_operator=by_operator)
            removed += 1

    while True:
        page = await pinning.search(requestor, search, _as_it_is)
        pins = [status.pin for status in page.pins]
        for start in range(0, len(pins), _UNDER_WAY):
            await all_of(map(remove, pins[start : start + _UNDER_WAY]))
            line.show(f"{removed:,} pins removed")
        if not page.more:
            return removed
        search = Search(limit=_PAGE, cursor=pins[-1].created_at)


def report(removed: int, *, as_json: bool) -> None:
    """Print how many pins were removed."""
    words = "1 pin removed" if removed == 1 else f"{removed:,} pins removed"
    click.echo(msgspec.json.encode({"removed": removed}) if as_json else words)


def resumable(
    work: Callable[[], int], again: str = "Run it again: it goes on where it was."
) -> int:
    """What *work* returns; where it is interrupted, this and how to go on is said, and the process
    ends."""
    try:
        return work()
    except KeyboardInterrupt:
        click.echo(f"Interrupted. {again}", err=True)
        sys.exit(common.INTERRUPTED)


def _as_it_is(page: Page) -> Page:
    return page
