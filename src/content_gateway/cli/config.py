"""`content-gateway config`: the settings as a server would take them, and a file to begin with."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from content_gateway.cli import common
from content_gateway.errors import GatewayError, WrongSettings
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded
from content_gateway.settings.template import template


@click.group("config", epilog="Example: content-gateway config show --config gateway.toml")
def command() -> None:
    """Show and check the settings, and write a file of them."""


@command.command("show", epilog="Example: content-gateway config show")
@common.settings_options
@common.json_option
def show(*, loaded: Loaded, as_json: bool) -> None:
    """Print every setting as TOML, secrets masked, and where it came from.

    With --json one object a line: a setting, its value and its origin."""
    if as_json:
        for name, value, origin in loaded.masked():
            told = {"setting": name, "value": value, "origin": origin}
            click.echo(msgspec.json.encode(told, enc_hook=str))  # paths are text
        return
    for name, value, origin in loaded.shown():
        click.echo(f"# {name} is not set" if value is None else f"{name} = {value}  # {origin}")


@command.command("check", epilog="Example: content-gateway config check --config gateway.toml")
@common.settings_options
def check(*, loaded: Loaded) -> None:
    """Tell whether the settings, and the files that they name, are right.

    Ends with status 2 where they are not, and says all that is wrong. No ledger is opened, and
    nobody is asked."""
    if wrong := [*_wrong_files(loaded.settings), *_wrong_description(loaded.settings)]:
        raise WrongSettings("\n".join(wrong))
    click.echo("The settings are right.", err=True)


@command.command("init", epilog="Example: content-gateway config init gateway.toml")
@click.argument("file", type=click.Path(path_type=Path), default=Path("gateway.toml"))
def init(*, file: Path) -> None:
    """Write every setting with its default, commented out, to FILE (gateway.toml).

    A file that exists is left as it is."""
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise GatewayError(f"{file} exists already, and is left as it is.") from None
    except OSError as wrong:
        raise GatewayError(f"{file} cannot be written: {wrong.strerror}.") from wrong
    try:
        with os.fdopen(made, "w") as stream:
            stream.write(template())
    except OSError as wrong:
        file.unlink()  # a part of it would be left as it is by the next run
        raise GatewayError(f"{file} cannot be written: {wrong.strerror}.") from wrong
    click.echo(f"{file} has every setting, commented out. Its owner alone can read it.", err=True)


def _wrong_files(chosen: Settings) -> Iterator[str]:
    """What is wrong with the files that settings name."""
    from content_gateway.denylist.denylist import Denylist
    from content_gateway.names.zone import ZoneFile

    def content() -> Any:
        return Denylist(chosen.denylist.content_file, None)

    def domains() -> Any:
        return Denylist(None, chosen.denylist.domains_file)

    def zone() -> Any:
        return ZoneFile(path) if (path := chosen.names.zone_file) else None

    parsers: tuple[Callable[[], Any], ...] = (content, domains, zone)
    for parse in parsers:
        with ExitStack() as stack:
            try:
                parsed = parse()
            except WrongSettings as wrong:
                yield wrong.detail
            else:
                if parsed is not None:
                    stack.callback(parsed.close)


def _wrong_description(chosen: Settings) -> Iterator[str]:
    """What is wrong with `spec_file`, and with what types of keys are granted of it."""
    from content_gateway.files.watched_file import read_bytes
    from content_gateway.http.openapi import MAX_FILE_BYTES, understand
    from content_gateway.settings.model import PACKAGED_SPEC
    from content_gateway.wiring.limits import check_operations

    try:
        document = understand(read_bytes(chosen.spec_file, MAX_FILE_BYTES).decode())
    except (OSError, ValueError, TypeError, RecursionError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else wrong
        yield f"spec_file: {chosen.spec_file}: {reason}"
        # As `serve` has it: the routes are then those of the one that we were shipped with.
        document = understand(PACKAGED_SPEC.read_text())
    try:
        check_operations(chosen.limits, [operation.id for operation in document.operations])
    except WrongSettings as wrong:
        yield wrong.detail
