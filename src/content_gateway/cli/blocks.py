"""`content-gateway blocks`: check and count the blocks of the embedded store.

May run beside the service, on the same files. Progress goes to standard error."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.status_line import StatusLine
from content_gateway.errors import GatewayError
from content_gateway.files.permissions import refusal
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.backends.embedded.blockstore import Blockstore
    from content_gateway.backends.embedded.denied import Denied
    from content_gateway.backends.embedded.verify import CorruptBlock

T = TypeVar("T")

_MEGABYTE: Final = 1_000_000


@click.group("blocks", epilog="Example: content-gateway blocks verify")
def command() -> None:
    """Check and count what the embedded store keeps."""


@command.command("verify", epilog="Example: content-gateway blocks verify --config gateway.toml")
@common.settings_options
@common.json_option
def verify(*, loaded: Loaded, as_json: bool) -> None:
    """Compute the hash of every block again; drop those that are corrupt.

    The service's next resync pins again what lost a block. Ends with status 1 on any damage."""
    from content_gateway.backends.embedded.verify import verify as verified

    checked = (0, 0)

    async def check(blocks: "Blockstore") -> int:
        with StatusLine() as line:

            def progress(number: int, size: int) -> None:
                nonlocal checked
                checked = number, size
                line.show(f"{number} blocks, {size / _MEGABYTE:.0f} MB")

            return await verified(blocks, progress, lambda block: _report(block, as_json))

    corrupt = _with_blocks(loaded, check)
    summary = f"{checked[0]} blocks, {checked[1] / _MEGABYTE:.1f} MB: "
    if not corrupt:
        click.echo(summary + "every one is what it should be.", err=as_json)
        return
    click.echo(
        f"{summary}{corrupt} were corrupt and were dropped. Their pins are incomplete now; "
        "the service brings them in again at its next resync (pins.resync_interval).",
        err=as_json,
    )
    raise SystemExit(1)


@command.command("stat", epilog="Example: content-gateway blocks stat --json")
@common.settings_options
@common.json_option
def stat(*, loaded: Loaded, as_json: bool) -> None:
    """Print how many blocks and pins there are, and the size of their file."""
    from content_gateway.backends.embedded.verify import stock

    kept = _with_blocks(loaded, stock)
    if as_json:
        click.echo(msgspec.json.encode(kept))
        return
    click.echo(f"blocks      {kept.blocks}")
    click.echo(f"pins        {kept.pins} complete, {kept.incomplete} not")
    click.echo(f"file        {kept.file_bytes / _MEGABYTE:.1f} MB")
    click.echo(f"free in it  {kept.free_bytes / _MEGABYTE:.1f} MB")


@command.command("denied", epilog="Example: content-gateway blocks denied --config gateway.toml")
@common.settings_options
@common.json_option
def denied(*, loaded: Loaded, as_json: bool) -> None:
    """List the blocks that are kept although denylist.content_file names them, and their pins.

    None of them is served. Ends with status 1 if there are any."""
    from content_gateway.backends.embedded.denied import denied as kept_and_denied
    from content_gateway.denylist.denylist import Denylist

    settings = loaded.settings
    denylist = Denylist(settings.denylist.content_file, None)
    check = denylist.checker()
    if check is None:
        click.echo("No list of blocked content is set.", err=as_json)
        return
    number = _with_blocks(
        loaded,
        lambda blocks: kept_and_denied(blocks, check, lambda one: _report_denied(one, as_json)),
    )
    denylist.close()
    if not number:
        click.echo("Nothing that is kept is blocked.", err=as_json)
        return
    click.echo(f"{number} blocks are kept and blocked. They are served to nobody.", err=as_json)
    raise SystemExit(1)


def _report(corrupt: "CorruptBlock", as_json: bool) -> None:
    pins = [str(pin) for pin in corrupt.pins]
    if as_json:
        line = {"block": str(corrupt.block), "bytes": corrupt.size, "pins": pins}
        click.echo(msgspec.json.encode(line))
        return
    whose = ", ".join(pins) or "no pin"
    click.echo(f"corrupt block {corrupt.block} ({corrupt.size} bytes), part of {whose}")


def _report_denied(denied: "Denied", as_json: bool) -> None:
    pins = [str(pin) for pin in denied.pins]
    if as_json:
        click.echo(msgspec.json.encode({"block": str(denied.block), "pins": pins}))
        return
    click.echo(f"blocked {denied.block}, part of {', '.join(pins) or 'no pin'}")


def _with_blocks(loaded: Loaded, ask: "Callable[[Blockstore], Awaitable[T]]") -> T:
    path = loaded.settings.blocks_path
    if (reason := refusal(path, makes=False)) is not None:
        raise GatewayError(f"{path} cannot be used: {reason}.")
    if not os.path.exists(path):
        raise GatewayError(
            f"There is no block store at {path}; --data or --config says where the service's is."
        )
    click.echo(f"Blocks: {path}", err=True)
    return common.run(_opened(path, ask))


async def _opened(path: Path, ask: "Callable[[Blockstore], Awaitable[T]]") -> T:
    from content_gateway.backends.embedded.blockstore import Blockstore

    async with Blockstore(path, collects=False) as blocks:
        return await ask(blocks)
