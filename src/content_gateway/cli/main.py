"""The command `content-gateway` and its table of subcommands.

A subcommand's module is imported when it is called, so that `--help` is quick. Errors of ours
become one line on standard error: exit 2 when the settings or the words are wrong, 1 for anything
else."""

import os
import sys
from importlib import import_module
from typing import Any, Final

import click

from content_gateway.errors import (
    GatewayError,
    InvalidAddress,
    InvalidCid,
    InvalidCoinType,
    InvalidDomain,
    InvalidIpnsName,
    KeyRefused,
    WrongSettings,
)
from content_gateway.files.disk import is_of_the_disk

_COMMANDS: Final = {
    "dev": "the embedded default, with a demonstration, on loopback",
    "serve": "the service, from settings",
    "keys": "create, list, rotate and revoke API keys",
    "resolve": "what a domain points at",
    "pin": "add, follow, list, remove, import and export pins",
    "reconcile": "reconcile pins now, and report what waits",
    "ledger": "back up, restore, check and mend the ledger",
    "audit": "what each key pinned, removed and was refused",
    "blocks": "verify the embedded store's blocks",
    "config": "show and check the settings, write a file of them",
}

_KEY_REFUSED: Final = (
    "The key is refused: {reason}. `content-gateway keys list` shows the keys that were issued;"
    " for a service that takes any key, set CONTENT_GATEWAY_KEYS__MODE=open."
)

# Trying the same words again is of no use.
_MISSPELT: Final = (InvalidAddress, InvalidCid, InvalidCoinType, InvalidDomain, InvalidIpnsName)
_INTERRUPTED: Final = 130  # as shells have it: 128 and the number of SIGINT


class _Commands(click.Group):
    """Subcommands by name, each in a module of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"content_gateway.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - our own modules
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """As of any group; one status for all that were interrupted, which click has at 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(_INTERRUPTED)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try it: content-gateway dev",
)
@click.version_option(package_name="content-gateway")
def cli() -> None:
    """One HTTP API in front of name services and IPFS."""


def main() -> None:
    """Run the command line; ends the process."""
    _open_standard_streams()
    try:
        cli(prog_name="content-gateway")  # also as `python -m content_gateway`
    except WrongSettings as wrong:
        for line in wrong.detail.splitlines():
            click.echo(f"wrong setting: {line}", err=True)
        sys.exit(2)
    except KeyRefused as refused:
        click.echo(_KEY_REFUSED.format(reason=refused.detail), err=True)
        sys.exit(1)
    except GatewayError as error:
        click.echo(error.detail or type(error).__name__, err=True)
        sys.exit(2 if isinstance(error, _MISSPELT) else 1)
    except OSError as wrong:
        if not is_of_the_disk(wrong):
            raise
        where = f"{wrong.filename}: " if wrong.filename else ""
        click.echo(f"{where}nothing can be written there now: {wrong.strerror}", err=True)
        sys.exit(1)


def _open_standard_streams() -> None:
    """Open what was closed of descriptors 0 to 2 (`>&-`): a database or a socket would get its
    number, and what is printed would be written into it."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(lowest)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process
