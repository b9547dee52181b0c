"""`content-gateway resolve`: one name, through the same directory as the server's."""

from pathlib import Path

import click

from content_gateway.cli import common
from content_gateway.model.records import IpfsContent, IpnsContent, OtherContent, Resolution
from content_gateway.settings.model import Settings


@click.command("resolve", epilog="Example: content-gateway resolve vitalik.eth --json")
@click.argument("name")
@click.option(
    "--coin-type",
    default="60",
    metavar="NUMBER",
    help="Print the address for this coin (SLIP-44; EVM chains: 2147483648 + chain id).",
)
@click.option("--fresh", is_flag=True, help="Ask the name service even if the answer is known.")
@common.config_option
@common.data_option
@common.json_option
def command(
    *, name: str, coin_type: str, fresh: bool, config: Path | None, data: Path | None, as_json: bool
) -> None:
    """Print what the domain NAME points at."""
    from content_gateway.http.operations.domain_answers import resolution_body

    resolution = common.run(
        _resolve(common.load_beside(config, data).settings, name, coin_type, fresh)
    )
    if as_json:
        click.echo(resolution_body(resolution))
        return
    for label, value in described(resolution):
        click.echo(f"{label:8} {value}")


async def _resolve(chosen: Settings, text: str, coin_type: str, fresh: bool) -> Resolution:
    from content_gateway.model.domain import DomainName
    from content_gateway.model.wallet import parse_coin_type
    from content_gateway.wiring.app import opened

    name, coin = DomainName.parse(text), parse_coin_type(coin_type)
    async with opened(chosen, common.zones_of(chosen)) as gateway:
        return await gateway.directory.resolve(name, coin, force_refresh=fresh)


def described(resolution: Resolution) -> list[tuple[str, str]]:
    """The lines for people, as label and value."""
    lines = []
    match resolution.records.content:
        case IpfsContent(cid):
            lines.append(("content", f"ipfs://{cid}"))
        case IpnsContent(name):
            lines.append(("content", f"ipns://{name}"))
            if resolution.ipns_cache is not None:
                found = resolution.ipns_cache
                lines.append(("cached", f"ipfs://{found.cid}{found.path}"))
        case OtherContent(codec, text):
            lines.append(("content", f"{codec}: {text}"))
    if (wallet := resolution.records.known_wallet) is not None:
        owner = " (owner)" if resolution.records.wallet_is_owner else ""
        lines.append(("wallet", wallet + owner))
    for record, failed in resolution.records.failures.items():
        lines.append((record, f"could not be read: {failed.reason}"))
    if resolution.stale is not None:
        lines.append(("age", f"{resolution.stale.age.total_seconds():.0f} s; no newer answer yet"))
    return lines
