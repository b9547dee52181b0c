"""`content-gateway pin`: pins in the service's own ledger.

A pin made here is kept like any other: a running service finds it in the ledger and tells the
backend. Without `--key` it belongs to the operator, a requestor of its own."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
import msgspec

from content_gateway.cli import common, pin_export, pin_import, pin_list, pin_removal, pin_view
from content_gateway.cli.duration import Duration
from content_gateway.cli.reconcile_if_idle import ReconcileIfIdle
from content_gateway.cli.status_line import StatusLine, plain
from content_gateway.cli.which_ledger import any_ledger, existing_ledger
from content_gateway.errors import StorageUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import Label, PinStatus, Removal
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_POLL_SECONDS: Final = 0.2
_MOST_FAILED_POLLS: Final = 100  # twenty seconds, one after the other
_REMOVED: Final = {
    Removal.RELEASED: (
        "leaves",
        "Pin removed; nobody else holds the content: it leaves the backend",
    ),
    Removal.STILL_HELD: ("stays", "Pin removed; the content stays on the backend: others hold it"),
}
_RELEASED: Final = ("released", "Pin removed")


@click.group("pin", epilog="Example: content-gateway pin add bafy... --wait")
def command() -> None:
    """Add, follow, list, remove, import and export pins."""


command.add_command(pin_import.import_pins)
command.add_command(pin_export.export)
command.add_command(pin_list.list_pins)


@command.command("add", epilog="Example: content-gateway pin add bafy... --wait --timeout 600")
@click.argument("cid")
@click.option("--name", callback=pin_import.checked_name, help="A name for people.")
@click.option("--wait", is_flag=True, help="Return when the backend holds the content.")
@click.option(
    "--timeout",
    type=Duration(),
    help="Wait so long at most (30, 10m), and end with status 1 then; the pin is kept.",
)
@common.key_option
@common.ledger_options
@any_ledger
def add(
    *,
    cid: str,
    name: str | None,
    wait: bool,
    timeout: float | None,
    key: str | None,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Pin CID; a running service brings the content in.

    With --wait this command does it itself while no service runs. A name that is given to a pin
    that exists takes the place of its old one."""
    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait.")
    adding = _Adding(loaded, key, cid, name)
    try:
        status = common.run_on(
            loaded.settings, lambda gateway: adding.run(gateway, wait=wait, seconds=timeout)
        )
    except KeyboardInterrupt:
        if adding.is_kept:
            click.echo("Interrupted. The pin is kept, and a service goes on with it.", err=True)
        sys.exit(common.INTERRUPTED)
    _print(status, as_json)
    if wait and status.state is not ContentState.PINNED:
        reason = pin_view.how_far(status).rstrip(".")
        click.echo(f"Not pinned after {timeout:g} s: {reason}. The pin is kept.", err=True)
        sys.exit(1)


class _Adding:
    """One `pin add`; *is_kept* from the moment the ledger has the pin."""

    def __init__(self, loaded: Loaded, key: str | None, text: str, name: str | None) -> None:
        self._loaded, self._key, self._text, self._name = loaded, key, text, name
        self._cid = Cid.parse(text)
        self.is_kept = False

    async def run(self, gateway: "Application", *, wait: bool, seconds: float | None) -> PinStatus:
        cid, requestor = self._cid, await common.requestor_of(gateway, self._loaded, self._key)
        await self._add(gateway, requestor)

        async def read_status() -> PinStatus:
            status = await gateway.pinning.status(requestor, cid)
            return await common.with_backend_reason(gateway, status)

        if not wait:
            return await read_status()
        reconciling = ReconcileIfIdle(gateway, self._loaded.settings)
        with StatusLine() as line:
            return await _until_pinned(
                read_status, reconciling=reconciling, seconds=seconds, line=line
            )

    async def _add(self, gateway: "Application", requestor: str) -> None:
        label = Label(self._name)
        pin = await gateway.pinning.add(requestor, self._text, label)
        self.is_kept = True
        if pin is not None:
            click.echo("Pin added", err=True)
            return
        click.echo("A pin already exists for this CID and key", err=True)
        if self._name is not None:
            held = await gateway.pinning.status(requestor, self._cid)
            label = replace(held.pin.label, name=self._name)
            await gateway.pinning.describe(requestor, self._text, label)


@command.command("status", epilog="Example: content-gateway pin status bafy... --json")
@click.argument("cid")
@common.whose_options
@common.ledger_options
@existing_ledger
def status(*, cid: str, whose: common.Whose, loaded: Loaded, as_json: bool) -> None:
    """Print how far the backend is with the pin of CID."""
    parsed = Cid.parse(cid)

    async def ask(gateway: "Application") -> PinStatus:
        requestor = await common.requestor_meant(gateway, loaded, whose)
        status = await gateway.pinning.status(requestor, parsed)
        return await common.with_backend_reason(gateway, status)

    _print(common.run_on(loaded.settings, ask), as_json)


@command.command("rm", epilog="Example: content-gateway pin rm bafy... --key-name wallet-team")
@click.argument("cid", required=False)
@click.option("--all", "every", is_flag=True, help="Every pin, instead of that of one CID.")
@pin_removal.yes_option
@common.whose_options
@common.ledger_options
@existing_ledger
def remove(
    *,
    cid: str | None,
    every: bool,
    yes: bool,
    whose: common.Whose,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Remove the pin of CID; the content leaves the backend with its last pin.

    Whether it does is told to the operator, not to whoever gives a key. With --all every pin of the
    key goes, or of the operator without one; run it again where it was interrupted."""
    if every == (cid is not None):
        raise click.UsageError("Give a CID, or --all.")
    if cid is None:
        _remove_all(whose, loaded, yes=yes, as_json=as_json)
        return
    parsed = Cid.parse(cid)

    async def ask(gateway: "Application") -> Removal:
        requestor = await common.requestor_meant(gateway, loaded, whose)
        return await gateway.pinning.remove(requestor, parsed, by_operator=whose.key is None)

    removal = common.run_on(loaded.settings, ask)
    # Whether others hold the content is the operator's business, and not a requestor's.
    content, words = _REMOVED[removal] if whose.key is None else _RELEASED
    click.echo(msgspec.json.encode({"cid": cid, "content": content}) if as_json else words)


def _remove_all(whose: common.Whose, loaded: Loaded, *, yes: bool, as_json: bool) -> None:
    pin_removal.require_terminal(yes=yes)

    async def ask(gateway: "Application") -> int:
        requestor = await common.requestor_meant(gateway, loaded, whose)
        count = await pin_removal.count_of(gateway.pinning, requestor)
        if count:
            pin_removal.confirm(f"Remove {count:,} pins?", yes=yes)
        with StatusLine() as line:
            is_ours = whose.key is None
            return await pin_removal.remove_all(
                gateway.pinning, requestor, by_operator=is_ours, line=line
            )

    removed = pin_removal.resumable(lambda: common.run_on(loaded.settings, ask))
    pin_removal.report(removed, as_json=as_json)


async def _until_pinned(
    read_status: Callable[[], Awaitable[PinStatus]],
    *,
    reconciling: ReconcileIfIdle,
    seconds: float | None,
    line: StatusLine,
) -> PinStatus:
    """The pin that *read_status* returns, once it is pinned, or as it is after *seconds*.

    Raises PinNotFound when it is removed meanwhile, WrongSettings when nobody reconciles it and we
    must not, and StorageUnavailable when the ledger cannot be read for long."""
    clock = asyncio.get_running_loop().time
    end = None if seconds is None else clock() + seconds
    step, failed_polls, last = 0, 0, ("", 0, "")
    while True:
        try:
            await reconciling.ensure_reconciled()
            status, failed_polls = await read_status(), 0
        except StorageUnavailable:
            failed_polls += 1
            if failed_polls > _MOST_FAILED_POLLS:
                raise
        else:
            text = pin_view.progress(status, step) if line.is_terminal else pin_view.how_far(status)
            seen = (status.state, status.replicas, status.error or "")
            line.show(text, news=seen != last)
            if status.state is ContentState.PINNED or (end is not None and clock() >= end):
                return status
            step, last = step + 1, seen
        await asyncio.sleep(_POLL_SECONDS)


def _print(status: PinStatus, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(pin_view.whole(status)))
        return
    for label, value in pin_view.described(status):
        click.echo(f"{label:10} {plain(value)}")
