"""`content-gateway pin import`: pins from a file, or from another pinning service.

Each source gives entries to one import (bulk_import.py), which adds them while they are read, so
that a source may have any size; what is pinned already is passed over, so that an import that was
interrupted is simply run again. What a source is like is left to import_lines.py, import_psa.py
and import_car.py."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.bulk_import import Import, Tally
from content_gateway.cli.lines import lines_of
from content_gateway.cli.pin_objects import MAX_NAME
from content_gateway.cli.status_line import StatusLine, plain
from content_gateway.cli.which_ledger import any_ledger
from content_gateway.errors import GatewayError
from content_gateway.model.cid import Cid
from content_gateway.pins.origins import OriginRules
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_BETWEEN_LINES: Final = 0.2
_STATUSES: Final = ("pinned", "queued", "pinning", "failed")
_USUAL: Final = ("pinned", "queued", "pinning")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where an import goes: the open service with its *settings*, and whose pins they become."""

    gateway: "Application"
    settings: Settings
    requestor: str
    importing: Import

    @property
    def rules(self) -> OriginRules:
        """Which origins are taken."""
        return OriginRules(self.settings.pins.private_origins)


@dataclass(frozen=True, slots=True)
class _Source:
    """What is imported: *take* brings all of it to a target; an entry of it is a *noun*.

    What it must not show is *secret*."""

    noun: str
    take: Callable[[_Target], Awaitable[None]]
    secret: str = ""


def checked_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of `--name`."""
    if value is not None and not 1 <= len(value) <= MAX_NAME:
        raise click.BadParameter(f"must have 1 to {MAX_NAME} characters")
    return value


@click.command("import", epilog="Example: content-gateway pin import cids.txt")
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--from-psa",
    metavar="URL",
    help="Instead of FILE, all pins of another service with a Pinning Service API, under this URL;"
    " its access token is in CONTENT_GATEWAY_PSA_TOKEN or in the file that"
    " CONTENT_GATEWAY_PSA_TOKEN_FILE names.",
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(_STATUSES),
    help="With --from-psa: pins in this state only, as the other service has it; can be given more"
    " than once. All but failed ones if it is left out.",
)
@click.option(
    "--plain-http", is_flag=True, help="With --from-psa: let the token be read on the way."
)
@click.option("--car", "is_car", is_flag=True, help="FILE is a CAR, whatever its name.")
@click.option(
    "--root",
    "roots",
    metavar="CID",
    multiple=True,
    help="Of a CAR: pin this, and not the roots that it names; can be given more than once.",
)
@common.key_option
@common.ledger_options
@any_ledger
def import_pins(
    *,
    file: str | None,
    from_psa: str | None,
    statuses: tuple[str, ...],
    plain_http: bool,
    is_car: bool,
    roots: tuple[str, ...],
    key: str | None,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Pin every CID in FILE (`-`: standard input), one a line; what a CAR has; or all that another
    service pins.

    On a line a name may follow a CID after white space; or it is an object as `pin export` writes
    them. Blank lines and those that begin with # are passed over. A FILE with the name *.car is a
    CAR: its blocks go to the embedded store, and its roots are pinned. What is pinned already
    stays as it is, so an import that broke off is run again. Ends with status 1 if an entry cannot
    be pinned (all the others are), or if the other service has more than it lists."""
    if (file is None) is (from_psa is None):
        raise click.UsageError("Either FILE or --from-psa URL says what to import.")
    if from_psa is not None and (is_car or roots):
        raise click.UsageError("--car and --root go with FILE.")
    if from_psa is None and (statuses or plain_http):
        raise click.UsageError("--status and --plain-http go with --from-psa.")
    if from_psa is not None:
        source = _psa(from_psa, statuses or _USUAL, plain_http=plain_http)
    elif is_car or roots or str(file).endswith(".car"):
        source = _car(str(file), tuple(map(Cid.parse, roots)), loaded.settings)
    else:
        source = _lines(str(file))
    tally = Tally()
    try:
        common.run_on(loaded.settings, lambda gateway: _import(gateway, loaded, key, source, tally))
    except KeyboardInterrupt:
        click.echo("Interrupted. Run it again: it goes on where it was.", err=True)
        _report(tally, source, as_json)
        sys.exit(common.INTERRUPTED)
    except GatewayError:
        if tally.read:
            _report(tally, source, as_json)
        raise
    _report(tally, source, as_json)
    sys.exit(1 if tally.invalid or not tally.is_whole else 0)


def _lines(file: str) -> _Source:
    """The lines of *file*."""
    from content_gateway.cli.import_lines import entries_of

    async def take(target: _Target) -> None:
        opened = sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        await target.importing.run(entries_of(lines_of(opened), target.rules))

    return _Source("line", take)


def _psa(url: str, statuses: tuple[str, ...], *, plain_http: bool) -> _Source:
    """The pins of the service at *url*; raises WrongSettings and GatewayError."""
    from content_gateway.cli.import_psa import CursorFile, PsaImport, token_from
    from content_gateway.wiring.pinning_services import check_url, opened_service

    check_url(url, plain=plain_http)
    token = token_from(os.environ)

    async def take(target: _Target) -> None:
        tally, gateway, requestor = target.importing.tally, target.gateway, target.requestor

        def waiting(reason: str | None) -> None:
            tally.obstacle = reason

        async def holds(cid: str) -> bool:
            try:
                await gateway.pinning.status(requestor, Cid.parse(cid))
            except GatewayError:
                return False
            return True

        cursor = CursorFile(target.settings.ledger_path, url, token, requestor, statuses)
        async with opened_service(url, token, waiting) as service:
            importing = PsaImport(
                service, statuses, target.importing, cursor, holds=holds, rules=target.rules
            )
            await importing.run()

    return _Source("pin", take, secret=token)


def _car(file: str, roots: tuple[Cid, ...], settings: Settings) -> _Source:
    """The *roots* of the CAR *file*; raises GatewayError where no blocks are kept by us."""
    from content_gateway.cli.import_car import CarImport, check_backend, seekable

    check_backend(settings)

    async def take(target: _Target) -> None:
        store = target.gateway.store
        assert store is not None  # noqa: S101 - by check_backend
        with seekable(file, settings) as stream:
            await CarImport(store, roots, target.importing, stream).run()

    return _Source("root", take)


async def _import(
    gateway: "Application", loaded: Loaded, key: str | None, source: _Source, tally: Tally
) -> None:
    requestor = await common.requestor_of(gateway, loaded, key)
    importing = Import(lambda cid, label: gateway.pinning.add(requestor, cid, label), tally)
    with StatusLine() as line:
        showing = asyncio.create_task(_show(line, tally, source.noun), name="progress")
        try:
            await source.take(_Target(gateway, loaded.settings, requestor, importing))
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


async def _show(line: StatusLine, tally: Tally, noun: str) -> None:
    began, obstacle = time.monotonic(), None
    while True:
        await asyncio.sleep(_BETWEEN_LINES)
        rate = tally.read / max(time.monotonic() - began, 0.001)
        text = f"{_counts(tally)} of {tally.read:,} {noun}s, {rate:,.0f}/s"
        if tally.doing:
            text = f"{tally.doing}; {text}"
        if tally.obstacle is not None:
            text += f"; trying again: {plain(tally.obstacle)}"
        line.show(text, news=tally.obstacle != obstacle)
        obstacle = tally.obstacle


def _report(tally: Tally, source: _Source, as_json: bool) -> None:
    """The refused entries and the notes on standard error, the counts on standard output."""
    refusals = [(number, _without(source.secret, reason)) for number, reason in tally.refusals]
    for number, reason in refusals:
        click.echo(f"{source.noun} {number}: {plain(reason)}", err=True)
    if (unshown := tally.invalid - len(refusals)) > 0:
        click.echo(f"and {unshown:,} more", err=True)
    for note in tally.notes:
        click.echo(note, err=True)
    if as_json:
        shown = [{source.noun: number, "reason": reason} for number, reason in refusals]
        click.echo(
            msgspec.json.encode(
                {f"{source.noun}s": tally.read, **_as_json(tally), "refusals": shown}
            )
        )
    else:
        click.echo(_counts(tally))


def _without(secret: str, text: str) -> str:
    """*text* without *secret*, which whoever it was sent to may have put there."""
    return text.replace(secret, "********") if secret else text


def _counts(tally: Tally) -> str:
    return f"{tally.added:,} added, {tally.there:,} already there, {tally.invalid:,} invalid"


def _as_json(tally: Tally) -> dict[str, Any]:
    return {
        "added": tally.added,
        "there": tally.there,
        "invalid": tally.invalid,
        "notes": tally.notes,
    }
