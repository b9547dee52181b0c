"""`content-gateway pin export`: pins as lines of JSON, or the content of one of them as a CAR.

Knows the members of a line, which `pin import` reads back. Files are left to output_file.py, the
order of the pins to the ledger, CARs to the embedded store."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.output_file import written
from content_gateway.cli.status_line import StatusLine, bytes_text
from content_gateway.cli.which_ledger import existing_ledger
from content_gateway.errors import GatewayError, NotFound
from content_gateway.model.cid import Cid
from content_gateway.model.pins import PinStatus
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application


@click.command("export", epilog="Example: content-gateway pin export --key-name wallet-team")
@click.argument(
    "file", required=False, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path)
)
@click.option("--car", "root", metavar="CID", help="Instead of pins, the content of this one.")
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
@common.whose_options
@common.ledger_options
@existing_ledger
def export(
    *,
    file: Path | None,
    root: str | None,
    force: bool,
    whose: common.Whose,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Write all pins to FILE (or standard output), oldest first: one JSON object a line.

    `pin import FILE` reads them back: names, metadata, origins, and the order. With --car the
    content of one pin, from the embedded store, as a CAR. FILE is complete or not there."""
    place = None if file is None or str(file) == "-" else file
    if root is None:
        number = common.run_on(
            loaded.settings, lambda it: _pins(it, loaded, whose, place, force=force)
        )
        _report({"file": str(place), "pins": number}, f"{number:,} pins", place, as_json)
    else:
        cid = Cid.parse(root)
        size = common.run_on(
            loaded.settings, lambda it: _car(it, loaded, whose, cid, place, force=force)
        )
        _report({"file": str(place), "bytes": size}, bytes_text(size), place, as_json)


async def _pins(
    gateway: "Application", loaded: Loaded, whose: common.Whose, place: Path | None, *, force: bool
) -> int:
    """Write all pins; how many there were."""
    requestor, number = await common.requestor_meant(gateway, loaded, whose), 0
    with written(place, force=force) as stream:
        async for pins in gateway.ledger.oldest_first(requestor):
            lines = [msgspec.json.encode(_line(status)) for status in pins]
            stream.write(b"\n".join(lines) + b"\n")
            number += len(lines)
    return number


async def _car(
    gateway: "Application",
    loaded: Loaded,
    whose: common.Whose,
    cid: Cid,
    place: Path | None,
    *,
    force: bool,
) -> int:
    """Write the CAR of the pin *cid*; its bytes."""
    await gateway.pinning.status(await common.requestor_meant(gateway, loaded, whose), cid)
    if gateway.store is None:
        raise GatewayError(
            f'A CAR comes from pins.backend "embedded", and here it is'
            f' "{loaded.settings.pins.backend}": `ipfs dag export {cid}` writes one.'
        )
    with written(place, force=force) as stream, StatusLine() as line:
        return await _copied(gateway, cid, stream, line)


async def _copied(gateway: "Application", cid: Cid, stream: BinaryIO, line: StatusLine) -> int:
    assert gateway.store is not None  # noqa: S101 - it was asked for
    size = 0
    try:
        async for piece in gateway.store.car(cid):
            stream.write(piece)
            size += len(piece)
            line.show(bytes_text(size))
    except NotFound as missing:
        raise GatewayError(
            f"Not all of it is here, and nothing was written. {missing.detail}"
        ) from missing
    return size


def _line(status: PinStatus) -> dict[str, Any]:
    """What is said of a pin; what it lacks is left out."""
    label = status.pin.label
    said = {
        "cid": status.pin.spelling,
        "name": label.name,
        "meta": label.meta or None,
        "origins": label.origins or None,
        "created": status.pin.timestamp,
        "status": status.state.value,
    }
    return {name: value for name, value in said.items() if value is not None}


def _report(shown: dict[str, Any], words: str, place: Path | None, as_json: bool) -> None:
    """How much was written where; nothing behind what went to standard output."""
    if place is not None:
        click.echo(msgspec.json.encode(shown) if as_json else f"{words} written to {place}")
