"""`content-gateway resolve`: one name, through the same directory as the server's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from content_gateway.cli import common
from content_gateway.cli.which_ledger import has_ledger
from content_gateway.model.records import IpfsContent, IpnsContent, OtherContent, Resolution
from content_gateway.settings.groups import DatabaseSettings
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application


@click.command("resolve", epilog="Example: content-gateway resolve vitalik.eth --json")
@click.argument("name")
@click.option(
    "--coin-type",
    default="60",
    metavar="NUMBER",
    help="Print the address for this coin (SLIP-44; EVM chains: 2147483648 + chain id).",
)
@click.option("--fresh", is_flag=True, help="Ask the name service even if the answer is known.")
@common.ledger_options
def command(*, name: str, coin_type: str, fresh: bool, loaded: Loaded, as_json: bool) -> None:
    """Print what the domain NAME points at."""
    from content_gateway.http.operations.domain_answers import resolution_body
    from content_gateway.model.domain import DomainName
    from content_gateway.model.wallet import parse_coin_type

    domain, coin = DomainName.parse(name), parse_coin_type(coin_type)

    async def ask(gateway: "Application") -> Resolution:
        return await gateway.directory.resolve(domain, coin, force_refresh=fresh)

    with _ledger(loaded.settings) as settings:
        resolution = common.run_on(settings, ask, common.zones_of(settings))
    if as_json:
        click.echo(resolution_body(resolution))
        return
    for label, value in described(resolution):
        click.echo(f"{label:8} {value}")


@contextmanager
def _ledger(chosen: Settings) -> Iterator[Settings]:
    """*chosen*, and with a ledger for this one look-up where there is none."""
    if has_ledger(chosen):
        yield chosen
        return
    click.echo(f"There is no ledger at {chosen.ledger_name}: the answer is kept nowhere.", err=True)
    with TemporaryDirectory(prefix="content-gateway-") as folder:
        elsewhere = {"data_dir": Path(folder), "database": DatabaseSettings()}
        yield chosen.model_copy(update=elsewhere)


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
