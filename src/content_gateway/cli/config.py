"""`content-gateway config`: the settings as a server would take them."""

from pathlib import Path

import click

from content_gateway.cli import common


@click.group("config", epilog="Example: content-gateway config show --config gateway.toml")
def command() -> None:
    """Show the settings."""


@command.command("show", epilog="Example: content-gateway config show")
@common.config_option
def show(config: Path | None) -> None:
    """Print every setting as TOML, secrets masked, and where it came from."""
    for name, value, origin in common.load(config).shown():
        click.echo(f"# {name} is not set" if value == "null" else f"{name} = {value}  # {origin}")
