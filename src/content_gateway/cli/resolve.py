"""`content-gateway resolve`: one name, through the same directory as the server's."""

from pathlib import Path

import click

from content_gateway.cli import common
from content_gateway.content.records import IpfsContent, IpnsContent, OtherContent, Resolution
from content_gateway.settings.model import Settings


@click.command("resolve", epilog="Example: content-gateway resolve vitalik.eth --json")
@click.argument("name")
@common.config_option
@common.json_option
def command(name: str, config: Path | None, as_json: bool) -> None:
    """Print what the domain NAME points at."""
    from content_gateway.api.answers import resolution_body

    resolution = common.run(_resolve(common.load(config).settings, name))
    if as_json:
        click.echo(resolution_body(resolution))
        return
    for label, value in described(resolution):
        click.echo(f"{label:8} {value}")


async def _resolve(chosen: Settings, text: str) -> Resolution:
    from content_gateway.app import opened
    from content_gateway.content.domain import DomainName

    name = DomainName.parse(text)
    async with opened(chosen) as gateway:
        return await gateway.directory.resolve(name)


def described(resolution: Resolution) -> list[tuple[str, str]]:
    """The lines for people, as label and value."""
    lines = []
    match resolution.records.content:
        case IpfsContent(cid):
            lines.append(("content", f"ipfs://{cid}"))
        case IpnsContent(name):
            lines.append(("content", f"ipns://{name}"))
            if resolution.ipns_cache is not None:
                lines.append(("cached", f"ipfs://{resolution.ipns_cache}"))
        case OtherContent(codec, text):
            lines.append(("content", f"{codec}: {text}"))
    if resolution.records.wallet is not None:
        owner = " (owner)" if resolution.records.wallet_is_owner else ""
        lines.append(("wallet", resolution.records.wallet + owner))
    return lines
