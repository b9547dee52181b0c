"""A time on the command line: `90d`, `1.5s`, or a bare number of seconds."""

from typing import Any, Final

import click

from content_gateway.codecs.quantities import parse_seconds

_LONGEST: Final = 31_536_000.0  # a year


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
