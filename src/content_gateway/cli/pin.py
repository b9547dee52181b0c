"""`content-gateway pin`: pins in the service's own ledger.

A pin made here is kept like any other: a running service finds it in the ledger and tells the
backend. Without `--key` it belongs to the operator, a requestor of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.content.cid import Cid
from content_gateway.content.pins import PinStatus
from content_gateway.settings.model import Settings

if TYPE_CHECKING:
    from content_gateway.app import Gateway

OPERATOR: Final = "operator"


def _key_option(function: common.F) -> common.F:
    help_text = "API key whose pin it is; without it, the operator's own."
    return click.option("--key", help=help_text)(function)


@click.group("pin", epilog="Example: content-gateway pin add bafy...")
def command() -> None:
    """Add a pin, or show one."""


@command.command("add", epilog="Example: content-gateway pin add bafy... --key cg_...")
@click.argument("cid")
@common.config_option
@_key_option
@common.json_option
def add(cid: str, config: Path | None, key: str | None, as_json: bool) -> None:
    """Pin CID; a running service brings the content in."""
    added, status = common.run(_add(common.load(config).settings, key, cid))
    click.echo("Pin added" if added else "A pin already exists for this CID and key", err=True)
    _print(status, as_json)


@command.command("status", epilog="Example: content-gateway pin status bafy... --json")
@click.argument("cid")
@common.config_option
@_key_option
@common.json_option
def status(cid: str, config: Path | None, key: str | None, as_json: bool) -> None:
    """Print how far the backend is with the pin of CID."""
    _print(common.run(_status(common.load(config).settings, key, cid)), as_json)


async def _add(chosen: Settings, key: str | None, text: str) -> tuple[bool, PinStatus]:
    from content_gateway.app import opened

    async with opened(chosen) as gateway:
        requestor = _requestor(gateway, key)
        pin = await gateway.pinning.add(requestor, text)
        return pin is not None, gateway.pinning.status(requestor, Cid.parse(text))


async def _status(chosen: Settings, key: str | None, text: str) -> PinStatus:
    from content_gateway.app import opened

    cid = Cid.parse(text)
    async with opened(chosen) as gateway:
        return gateway.pinning.status(_requestor(gateway, key), cid)


def _requestor(gateway: "Gateway", key: str | None) -> str:
    return gateway.keys.identify(key).id if key else OPERATOR


def _print(status: PinStatus, as_json: bool) -> None:
    shown = {
        "cid": status.pin.spelling,
        "status": status.state.value,
        "timestamp": status.pin.timestamp,
        "attempts": status.attempts,
        "error": status.error,
    }
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    for label, value in shown.items():
        if value is not None:
            click.echo(f"{label:10} {value}")
