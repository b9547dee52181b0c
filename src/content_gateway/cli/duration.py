"""Times on the command line: `90d`, `1.5s`, or a bare number of seconds."""

import math
from datetime import timedelta
from typing import Any, Final

import click

from content_gateway.codecs.quantities import parse_seconds

_LONGEST: Final = 31_536_000.0  # a year
_LONGEST_LIFE: Final = timedelta(days=1_000_000)


class Duration(click.ParamType[float]):
    """Seconds, above 0 and up to a year."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The seconds that *value* says."""
        try:
            seconds = parse_seconds(value) if isinstance(value, str) else float(value)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)
        if not 0 < seconds <= _LONGEST:
            self.fail("must be above 0, and a year at most", param, ctx)
        return seconds


class Lifetime(click.ParamType[timedelta]):
    """A number and a unit, 90d or 12h: how long a key lives is never meant in seconds."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        """The time that *value* says; click.BadParameter if it says none."""
        if isinstance(value, timedelta):
            return value
        try:
            seconds = parse_seconds(str(value))
        except ValueError:
            seconds = math.nan
        if math.isnan(seconds) or str(value).isdecimal():
            self.fail("must be a number and s, m (minutes), h or d, as in 90d", param, ctx)
        if not 0 < seconds < _LONGEST_LIFE.total_seconds():
            self.fail(f"must be above 0, and below {_LONGEST_LIFE.days:,}d, as in 90d", param, ctx)
        return timedelta(seconds=seconds)
