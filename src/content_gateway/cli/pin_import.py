"""`content-gateway pin import`: the CIDs in a file, one a line, as pins.

Reads while it pins, so that a file may have any size; what is pinned already is passed over, so
that an import that was interrupted is simply run again."""

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.bulk_import import MAX_NAME, Import, Tally
from content_gateway.cli.lines import lines_of
from content_gateway.cli.status_line import StatusLine, plain
from content_gateway.cli.which_ledger import any_ledger
from content_gateway.errors import GatewayError
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_BETWEEN_LINES: Final = 0.2


def checked_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of `--name`."""
    if value is not None and not 1 <= len(value) <= MAX_NAME:
        raise click.BadParameter(f"must have 1 to {MAX_NAME} characters")
    return value


@click.command("import", epilog="Example: content-gateway pin import cids.txt")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@common.key_option
@common.ledger_options
@any_ledger
def import_pins(*, file: str, key: str | None, loaded: Loaded, as_json: bool) -> None:
    """Pin every CID in FILE (`-`: standard input), one a line.

    A name may follow a CID after white space; blank lines and those that begin with # are passed
    over. What is pinned already stays as it is, so an import that broke off is run again. Ends
    with status 1 if a line cannot be pinned; all the others are."""
    tally = Tally()
    try:
        common.run_on(loaded.settings, lambda gateway: _import(gateway, loaded, key, file, tally))
    except KeyboardInterrupt:
        click.echo("Interrupted. Run it again: it goes on where it was.", err=True)
        _report(tally, as_json)
        sys.exit(common.INTERRUPTED)
    except GatewayError:
        if tally.lines:
            _report(tally, as_json)
        raise
    _report(tally, as_json)
    sys.exit(1 if tally.invalid else 0)


async def _import(
    gateway: "Application", loaded: Loaded, key: str | None, file: str, tally: Tally
) -> None:
    requestor = common.requestor_of(gateway, loaded, key)
    importing = Import(lambda cid, label: gateway.pinning.add(requestor, cid, label), tally)
    source = sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    with StatusLine() as line:
        showing = asyncio.create_task(_show(line, tally), name="progress")
        try:
            await importing.run(lines_of(source))
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


async def _show(line: StatusLine, tally: Tally) -> None:
    began, obstacle = time.monotonic(), None
    while True:
        await asyncio.sleep(_BETWEEN_LINES)
        rate = tally.lines / max(time.monotonic() - began, 0.001)
        text = f"{_counts(tally)} of {tally.lines:,} lines, {rate:,.0f}/s"
        if tally.obstacle is not None:
            text += f"; trying again: {plain(tally.obstacle)}"
        line.show(text, news=tally.obstacle != obstacle)
        obstacle = tally.obstacle


def _report(tally: Tally, as_json: bool) -> None:
    """The refused lines on standard error, the counts on standard output."""
    for number, reason in tally.refusals:
        click.echo(f"line {number}: {plain(reason)}", err=True)
    if (unshown := tally.invalid - len(tally.refusals)) > 0:
        click.echo(f"and {unshown:,} more", err=True)
    if as_json:
        click.echo(msgspec.json.encode(_as_json(tally)))
    else:
        click.echo(_counts(tally))


def _counts(tally: Tally) -> str:
    return f"{tally.added:,} added, {tally.there:,} already there, {tally.invalid:,} invalid"


def _as_json(tally: Tally) -> dict[str, Any]:
    return {
        "lines": tally.lines,
        "added": tally.added,
        "there": tally.there,
        "invalid": tally.invalid,
        "refusals": [{"line": number, "reason": reason} for number, reason in tally.refusals],
    }
