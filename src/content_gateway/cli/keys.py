"""`content-gateway keys`: issue, list, rotate and revoke API keys.

A key is printed once, on standard output, and stored as a hash; the rest is standard error."""

import re
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from content_gateway.api_keys import SCOPES, KeyRecord
from content_gateway.cli import common, key_view, pin_removal
from content_gateway.cli.duration import Lifetime
from content_gateway.cli.key_limits import LimitOption, check_limits
from content_gateway.cli.status_line import StatusLine
from content_gateway.cli.table import table
from content_gateway.cli.which_ledger import any_ledger, existing_ledger
from content_gateway.errors import GatewayError
from content_gateway.model.pins import Holdings
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.keys import Tenants

T = TypeVar("T")

_NOTHING: Final = Holdings()


def _checked_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[\w.@-]{1,64}", value, re.ASCII):
        raise click.BadParameter("must be 1 to 64 letters, digits, or any of . _ @ -")
    return value


@click.group("keys", epilog="Example: content-gateway keys create --name wallet-team")
def command() -> None:
    """Issue, list, rotate and revoke API keys."""


@command.command(
    "create",
    epilog="Example: content-gateway keys create --name ci --scope resolve --expires 90d",
)
@click.option(
    "--name",
    required=True,
    callback=_checked_name,
    help="Who it is for; no other living key may have it.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=SCOPES,
    show_default=True,
    help="What it may do; can be given more than once.",
)
@click.option("--expires", type=Lifetime(), help="Lifetime, as in 90d; without it, for ever.")
@click.option("--type", "kind", help="Its type: a table limits.types.NAME of the settings.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    type=LimitOption(),
    metavar="NAME=NUMBER",
    help="A limit of its own, as pins=1000; can be given more than once.",
)
@common.ledger_options
@any_ledger
def create(
    *,
    name: str,
    scopes: tuple[str, ...],
    expires: timedelta | None,
    kind: str | None,
    limits: tuple[tuple[str, int], ...],
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Issue a key and print it: the only time it is shown."""
    own = dict(limits)
    check_limits(loaded.settings.limits, kind, own)
    created = _with_tenants(
        loaded,
        lambda tenants: tenants.keys.create(name, scopes, expires, type=kind, limits=own),
    )
    if created is None:
        raise GatewayError(
            f"The name {name} is in use by another key. It is free again once that is revoked, and"
            f" `keys rotate {name}` gives the same key a new secret."
        )
    key, record = created
    click.echo(f"Key {record.name} may {' and '.join(sorted(record.scopes))}. Keep it:", err=True)
    _print_key({**key_view.whole(record, _NOTHING), "key": key}, as_json=as_json)


@command.command("list", epilog="Example: content-gateway keys list --json")
@common.ledger_options
@existing_ledger
def list_keys(*, loaded: Loaded, as_json: bool) -> None:
    """Print every key, without its secret: what it has pinned, and when it was last used.

    Bytes are those that the backend told of: `+ N unknown` are pins of which it did not. The last
    use is known to the minute, and some minutes late."""

    async def ask(tenants: "Tenants") -> list[tuple[KeyRecord, Holdings]]:
        records, held = await tenants.keys.all(), await tenants.ledger.holdings_by_key()
        return [(record, held.get(record.id, _NOTHING)) for record in records]

    found = _with_tenants(loaded, ask)
    if as_json:
        for record, holdings in found:
            click.echo(msgspec.json.encode(key_view.whole(record, holdings)))
    elif found:
        rows = [key_view.columns(record, holdings) for record, holdings in found]
        click.echo(table(key_view.HEADINGS, rows))
    else:
        click.echo("No key was issued yet.", err=True)


@command.command("rotate", epilog="Example: content-gateway keys rotate wallet-team --grace 24h")
@click.argument("name")
@click.option("--grace", type=Lifetime(), help="How long the old secret goes on, as in 24h.")
@common.ledger_options
@existing_ledger
def rotate(*, name: str, grace: timedelta | None, loaded: Loaded, as_json: bool) -> None:
    """Give the key NAME a new secret and print it; the old one stops working, pins stay.

    With --grace both work until then. A secret that is in its grace already ends at once."""
    key = _with_tenants(loaded, lambda tenants: tenants.keys.rotate(name, grace))
    if key is None:
        raise GatewayError(f"There is no key named {name}, or it is revoked or expired.")
    _print_key({"name": name, "key": key}, as_json=as_json)


@command.command("revoke", epilog="Example: content-gateway keys revoke wallet-team --remove-pins")
@click.argument("name", required=False)
@click.option("--key-id", metavar="ID", help="Its id, instead of NAME: a name may be used again.")
@click.option("--remove-pins", is_flag=True, help="Remove its pins then, also if it was revoked.")
@pin_removal.yes_option
@common.ledger_options
@existing_ledger
def revoke(
    *,
    name: str | None,
    key_id: str | None,
    remove_pins: bool,
    yes: bool,
    loaded: Loaded,
    as_json: bool,
) -> None:
    """Stop the key NAME for good; its pins stay, unless they are to be removed."""
    if (name is None) == (key_id is None):
        raise click.UsageError("Either NAME or --key-id says which key is meant.")
    whose = common.Whose(None, name, key_id)
    if not remove_pins:
        revoked = _with_tenants(loaded, lambda tenants: _revoke(tenants, whose))
        if revoked is None:
            raise GatewayError(f"There is no key named {name or key_id}, or it is revoked already.")
        if as_json:
            click.echo(msgspec.json.encode({"name": revoked.name, "id": revoked.id}))
        return
    pin_removal.require_terminal(yes=yes)
    record = _with_tenants(loaded, lambda tenants: _revoke_confirmed(tenants, whose, yes))
    removed = pin_removal.resumable(
        lambda: _with_tenants(loaded, lambda tenants: _remove_pins(tenants, record)),
        f"Go on with `content-gateway pin rm --all --key-id {record.id}`.",
    )
    if as_json:
        told = {"name": record.name, "id": record.id, "removed": removed}
        click.echo(msgspec.json.encode(told))
    else:
        pin_removal.report(removed, as_json=False)


def _print_key(told: dict[str, Any], *, as_json: bool) -> None:
    """Print a new secret, the member `key` of *told*: it is in the ledger by now, and nobody else
    has it."""
    try:
        click.echo(msgspec.json.encode(told) if as_json else told["key"])
        sys.stdout.flush()
    except OSError as wrong:
        raise GatewayError(
            f"The key could not be printed: {wrong.strerror}. `keys rotate {told['name']}` gives"
            " another one."
        ) from wrong


async def _revoke(tenants: "Tenants", whose: common.Whose) -> KeyRecord | None:
    """Revoke a key, which is returned; None if it is revoked already. Raises GatewayError where
    there is none."""
    record = await common.issued_key(tenants.keys, whose)
    if not await tenants.keys.revoke(record.id):
        return None
    click.echo(f"Key {record.name} is revoked.", err=True)
    return record


async def _revoke_confirmed(tenants: "Tenants", whose: common.Whose, yes: bool) -> KeyRecord:
    """Revoke a key, if somebody says so and it is not so already."""
    record = await common.issued_key(tenants.keys, whose)
    count = await pin_removal.count_of(tenants.pinning, record.id)
    pin_removal.confirm(
        f"Revoke {record.name} ({record.id}) and remove its pins, {count:,} of them?", yes=yes
    )
    await _revoke(tenants, common.Whose(None, key_id=record.id))
    return record


async def _remove_pins(tenants: "Tenants", record: KeyRecord) -> int:
    """Remove the pins of a revoked key, which can add none; how many they were."""
    with StatusLine() as line:
        return await pin_removal.remove_all(tenants.pinning, record.id, by_operator=True, line=line)


def _with_tenants(loaded: Loaded, ask: "Callable[[Tenants], Awaitable[T]]") -> T:
    return common.run(_opened(loaded.settings, ask))


async def _opened(chosen: Settings, ask: "Callable[[Tenants], Awaitable[T]]") -> T:
    from content_gateway.wiring.keys import opened_tenants

    async with opened_tenants(chosen) as tenants:
        return await ask(tenants)
