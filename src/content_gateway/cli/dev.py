"""`content-gateway dev`: the embedded default with a demonstration, for one's own machine."""

from pathlib import Path
from typing import Any, Final

import click

from content_gateway.cli import common, serving
from content_gateway.concurrency.garbage_collection import collect_later
from content_gateway.settings.model import Settings

_PROFILE: Final = {"keys.mode": "open", "cors.origins": ["*"], "admin.port": 0, "log.access": "on"}

_WELCOME: Final = """\
Content Gateway is listening on {url}, with {mode} keys.

In a browser: {url}/ (the key of /console is {key}). In a shell:

  curl {url}/version
  curl {url}/spec
  curl -H 'x-api-key: {key}' {url}/domain/resolve/site.demo
  curl -H 'x-api-key: {key}' {url}/domain/resolve/blog.demo
  curl -X POST -H 'x-api-key: {key}' {url}/ipfs/pin/add/{root}
  curl -H 'x-api-key: {key}' '{url}/domain/resolve/site.demo?coinType=2147492101'

Everything it keeps is in {data_dir}. Ctrl-C stops it."""


@click.command("dev", epilog="Example: content-gateway dev --port 9000 --data /tmp/gateway")
@common.config_option
@common.data_option
@click.option("--host", help="Loopback address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
def command(config: Path | None, data: Path | None, host: str | None, port: int | None) -> None:
    """Run the embedded default: open keys, loopback only, a demonstration without internet."""
    collect_later()
    options: dict[str, Any] = {"host": host, "port": port, "data_dir": data}
    loaded = common.load(config, options, _PROFILE)
    common.run(_serve(loaded.settings))


async def _serve(chosen: Settings) -> None:
    from content_gateway.demo import demo
    from content_gateway.names.zone import ZoneFile

    async with demo.running(chosen.data_dir / "demo") as shown:

        def announce(url: str) -> None:
            mode = chosen.keys.mode
            key = "me" if mode == "open" else "KEY"
            click.echo(
                _WELCOME.format(
                    url=url, mode=mode, key=key, root=shown.root, data_dir=chosen.data_dir
                )
            )

        await serving.serve(
            _with_demo(chosen, shown.url), announce, zones=[ZoneFile(shown.zone_file)]
        )


def _with_demo(chosen: Settings, url: str) -> Settings:
    """*chosen*, with the demonstration's origin asked first for blocks and records."""
    return chosen.model_copy(
        update={
            "embedded": chosen.embedded.model_copy(
                update={"gateways": (url, *chosen.embedded.gateways)}
            ),
            "content": chosen.content.model_copy(
                update={"gateways": (url, *chosen.content.gateways)}
            ),
            "ipns": chosen.ipns.model_copy(update={"routers": (url, *chosen.ipns.routers)}),
        }
    )
