"""`content-gateway serve`: production, everything from settings."""

from pathlib import Path

import click

from content_gateway.cli import common, serving
from content_gateway.concurrency.garbage_collection import collect_later
from content_gateway.settings.model import Settings


@click.command(
    "serve",
    epilog="Example: content-gateway serve --config /etc/content-gateway.toml",
)
@common.config_option
@common.data_option
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Processes that take requests.")
def command(
    config: Path | None,
    data: Path | None,
    host: str | None,
    port: int | None,
    workers: int | None,
) -> None:
    """Run the service: issued keys, everything from settings.

    SIGTERM stops it. SIGHUP has workers read the settings again; a single process logs which of
    them a restart would take. It listens on the sockets of a service manager, and tells it how it
    is, where there is one."""
    collect_later()
    options = {"host": host, "port": port, "data_dir": data, "workers": workers}

    def reread() -> Settings:
        return common.read(config, options).settings

    loaded = common.load(config, options)
    common.run(serving.serve(loaded.settings, _announce, reread=reread))


def _announce(url: str) -> None:
    click.echo(f"Listening on {url}", err=True)
