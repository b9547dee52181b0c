"""`content-gateway serve`: production, everything from settings."""

from pathlib import Path

import click

from content_gateway.cli import common


@click.command(
    "serve",
    epilog="Example: content-gateway serve --config /etc/content-gateway.toml",
)
@common.config_option
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
def command(config: Path | None, host: str | None, port: int | None) -> None:
    """Run the service: issued keys, everything from settings."""
    loaded = common.load(config, {"host": host, "port": port})
    common.run(
        common.serve(loaded.settings, lambda url: click.echo(f"Listening on {url}", err=True))
    )
