"""`content-gateway keys`: issue, list, rotate and revoke API keys.

A key is printed once, on standard output, and stored as a hash; the rest is standard error."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click
import msgspec

from content_gateway.api_keys import SCOPES, IssuedKeys, KeyRecord
from content_gateway.cli import common
from content_gateway.cli.which_ledger import any_ledger, existing_ledger
from content_gateway.codecs.quantities import parse_seconds
from content_gateway.errors import GatewayError
from content_gateway.model.allowance import LIMITS
from content_gateway.settings.groups import LimitSettings
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

T = TypeVar("T")

_LONGEST: Final = timedelta(days=1_000_000)


class _Lifetime(click.ParamType[timedelta]):
    """A number and a unit: 90d, 12h, 30m."""

    name = "lifetime"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            lifetime = timedelta(seconds=parse_seconds(str(value)))
        except (ValueError, OverflowError):
            lifetime = timedelta()
        if not timedelta() < lifetime < _LONGEST or str(value).isdecimal():
            self.fail("must be a number and s, m (minutes), h or d, as in 90d", param, ctx)
        return lifetime


class _Limit(click.ParamType[tuple[str, int]]):
    """The name of a limit and its number: pins=1000."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).partition("=")
        if name not in LIMITS:
            self.fail(f"there is no limit {name}; there are {', '.join(LIMITS)}", param, ctx)
        if not re.fullmatch(r"[1-9]\d{0,9}", number, re.ASCII):
            self.fail(
                f"{name} must be a number from 1 on; without the option it has none of its own",
                param,
                ctx,
            )
        return name, int(number)


def _check_limits(chosen: LimitSettings, kind: str | None, own: Mapping[str, int]) -> None:
    """Raises GatewayError for a type that is not set, and for limits beyond those of the type."""
    from content_gateway.wiring.limits import default_allowance, typed_allowances

    typed = typed_allowances(chosen)
    if kind is not None and kind not in typed:
        there = f"there are {', '.join(typed)}" if typed else "there are none"
        raise GatewayError(f"limits.types has no {kind}; {there}.")
    allowance = default_allowance(chosen) if kind is None else typed[kind]
    if beyond := allowance.widened_by(own):
        whose = "those of all keys" if kind is None else f"those of the type {kind}"
        texts = [f"{name} {own[name]:,} (at most {getattr(allowance, name):,})" for name in beyond]
        raise GatewayError(f"Limits of a key cannot be higher than {whose}: {', '.join(texts)}.")


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
@click.option("--name", required=True, callback=_checked_name, help="Who it is for; unique.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=SCOPES,
    show_default=True,
    help="What it may do; can be given more than once.",
)
@click.option("--expires", type=_Lifetime(), help="Lifetime, as in 90d; without it, for ever.")
@click.option("--type", "kind", help="Its type: a table limits.types.NAME of the settings.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    type=_Limit(),
    metavar="NAME=NUMBER",
    help="A limit of its own, as pins=1000; can be given more than once.",
)
@common.settings_options
@any_ledger
def create(
    *,
    name: str,
    scopes: tuple[str, ...],
    expires: timedelta | None,
    kind: str | None,
    limits: tuple[tuple[str, int], ...],
    loaded: Loaded,
) -> None:
    """Issue a key and print it: the only time it is shown."""
    own = dict(limits)
    _check_limits(loaded.settings.limits, kind, own)
    created = _with_keys(
        loaded, lambda keys: keys.create(name, scopes, expires, type=kind, limits=own)
    )
    if created is None:
        raise GatewayError(f"There is a key named {name} already.")
    key, record = created
    click.echo(f"Key {record.name} may {' and '.join(sorted(record.scopes))}. Keep it:", err=True)
    click.echo(key)


@command.command("list", epilog="Example: content-gateway keys list --json")
@common.ledger_options
@existing_ledger
def list_keys(*, loaded: Loaded, as_json: bool) -> None:
    """Print every key, without its secret."""

    async def ask(keys: IssuedKeys) -> list[KeyRecord]:
        return list(keys.all())

    rows = [_row(record) for record in _with_keys(loaded, ask)]
    if as_json:
        click.echo(msgspec.json.encode(rows))
        return
    for row in rows:
        click.echo("  ".join(f"{value or '-'}" for value in row.values()))


@command.command("rotate", epilog="Example: content-gateway keys rotate wallet-team")
@click.argument("name")
@common.settings_options
@existing_ledger
def rotate(*, name: str, loaded: Loaded) -> None:
    """Give the key NAME a new secret and print it; the old one stops working, pins stay."""
    key = _with_keys(loaded, lambda keys: keys.rotate(name))
    if key is None:
        raise GatewayError(f"There is no key named {name}, or it is revoked or expired.")
    click.echo(key)


@command.command("revoke", epilog="Example: content-gateway keys revoke wallet-team")
@click.argument("name")
@common.settings_options
@existing_ledger
def revoke(*, name: str, loaded: Loaded) -> None:
    """Stop the key NAME for good; its pins stay."""
    if not _with_keys(loaded, lambda keys: keys.revoke(name)):
        raise GatewayError(f"There is no key named {name}, or it is revoked already.")
    click.echo(f"Key {name} is revoked.", err=True)


def _with_keys(loaded: Loaded, ask: Callable[[IssuedKeys], Awaitable[T]]) -> T:
    return common.run(_opened(loaded.settings, ask))


async def _opened(chosen: Settings, ask: Callable[[IssuedKeys], Awaitable[T]]) -> T:
    from content_gateway.wiring.keys import opened_keys

    async with opened_keys(chosen) as keys:
        return await ask(keys)


def _row(record: KeyRecord) -> dict[str, str | None]:
    return {
        "name": record.name,
        "prefix": record.prefix,
        "scopes": " ".join(sorted(record.scopes)),
        "created": _text(record.created_at),
        "expires": _text(record.expires_at),
        "type": record.type,
        "state": record.refusal(datetime.now(UTC)) or "valid",
    }


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
