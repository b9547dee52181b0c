"""The limits of a new key on the command line: pins=1000, within those of its type.

Knows their names and what would be wider than the settings allow. What a limit does is left to
model/allowance.py."""

import re
from collections.abc import Mapping
from typing import Any

import click

from content_gateway.errors import GatewayError
from content_gateway.model.allowance import LIMITS
from content_gateway.settings.groups import LimitSettings


class LimitOption(click.ParamType[tuple[str, int]]):
    """The name of a limit and its number: pins=1000."""

    name = "limit"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        """The limit that *value* says; click.BadParameter if it says none."""
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).partition("=")
        if name not in LIMITS:
            self.fail(f"there is no limit {name}; there are {', '.join(LIMITS)}", param, ctx)
        if not re.fullmatch(r"[1-9]\d{0,9}", number, re.ASCII):
            self.fail(
                f"{name} must be a number from 1 to 9,999,999,999; without the option it has none"
                " of its own",
                param,
                ctx,
            )
        return name, int(number)


def check_limits(chosen: LimitSettings, kind: str | None, own: Mapping[str, int]) -> None:
    """Raises UsageError for a type that is not set, and GatewayError for limits beyond those of the
    type."""
    from content_gateway.wiring.limits import default_allowance, typed_allowances

    typed = typed_allowances(chosen)
    if kind is not None and kind not in typed:
        there = f"there are {', '.join(typed)}" if typed else "there are none"
        raise click.UsageError(f"limits.types has no {kind}; {there}.")
    allowance = default_allowance(chosen) if kind is None else typed[kind]
    if beyond := allowance.widened_by(own):
        whose = "those of all keys" if kind is None else f"those of the type {kind}"
        texts = [f"{name} {own[name]:,} (at most {getattr(allowance, name):,})" for name in beyond]
        raise GatewayError(f"Limits of a key cannot be higher than {whose}: {', '.join(texts)}.")
