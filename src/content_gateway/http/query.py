"""Query strings: text in, values of the domain out.

Knows how a query is spelt, and that an unknown parameter is an error: a filter that is ignored
would show, or let somebody remove, more than was meant. Handlers know their parameters."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from urllib.parse import parse_qsl

import msgspec

from content_gateway.errors import InvalidQuery

MAX_NAME: Final = 255  # characters
# A text with a NUL in it is not kept whole by every ledger.
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]

_FIELDS: Final = 32
_TEXTS: Final = msgspec.json.Decoder(dict[str, Text])
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
# RFC 3339 section 5.6; Go writes up to nine digits of a second.
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_MICROSECOND: Final = timedelta(microseconds=1)


def parse_query(
    query: bytes, known: Collection[str], *, lists: Collection[str] = ()
) -> dict[str, str]:
    """The parameters in *query*; raises InvalidQuery when one is not *known* or is given twice.

    Those of *lists* may be given again: their members are joined by commas, which is the other way
    to write a list (OpenAPI, style `form`)."""
    if not query:
        return {}
    try:
        text = query.decode("ascii")
        given = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError as wrong:
        raise InvalidQuery("The query cannot be read.") from wrong
    parameters: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            there_are = f"; there are: {', '.join(sorted(known))}" if known else ""
            raise InvalidQuery(f"There is no parameter '{name[:40]}' here{there_are}.")
        if name in parameters and name not in lists:
            raise InvalidQuery(f"The parameter '{name}' is given twice.")
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def number(name: str, text: str | None, *, least: int, most: int, default: int) -> int:
    """The whole number *text* of the parameter *name*; raises InvalidQuery."""
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise InvalidQuery(f"{name} must be a whole number from {least} to {most}.")
    return int(text)


def texts(name: str, text: str | None) -> dict[str, str]:
    """The JSON object *text*, whose values are text, {} for None; raises InvalidQuery."""
    if text is None:
        return {}
    try:
        return _TEXTS.decode(text)
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise InvalidQuery(f"{name} must be a JSON object whose values are text.") from wrong


def name_for_people(text: str | None, parameter: str = "name") -> str | None:
    """The *text* of a *parameter* that is a name; raises InvalidQuery."""
    if text is not None and (len(text) > MAX_NAME or "\0" in text):
        raise InvalidQuery(
            f"{parameter} has at most {MAX_NAME} characters, and none of them is NUL."
        )
    return text


def choices(name: str, text: str | None, allowed: Collection[str]) -> list[str]:
    """The members of the comma separated *text*, [] for None; raises InvalidQuery."""
    if text is None:
        return []
    chosen = text.split(",")
    if not set(chosen) <= set(allowed):
        raise InvalidQuery(f"{name} takes, separated by commas: {', '.join(allowed)}.")
    return chosen


def choice(name: str, text: str, allowed: Collection[str]) -> str:
    """The one member of *allowed* that *text* is; raises InvalidQuery."""
    if text not in allowed:
        raise InvalidQuery(f"{name} takes one of: {', '.join(allowed)}.")
    return text


def timestamp(name: str, text: str | None, *, up: bool) -> datetime | None:
    """The timestamp *text* (RFC 3339) in whole microseconds, rounded *up* or down, None for None.

    Raises InvalidQuery."""
    if text is None:
        return None
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise InvalidQuery(f"{name} must be a timestamp (RFC 3339): 2026-11-21T12:00:00.000Z.")
    date, time, fraction, zone = found.groups()
    nanoseconds = int((fraction or "0").ljust(9, "0"))
    zone = "+00:00" if zone in "Zz" else zone
    try:
        whole = datetime.fromisoformat(f"{date}T{time}{zone}").astimezone(UTC)
        exact = whole + timedelta(microseconds=nanoseconds // 1000)
        return exact + _MICROSECOND if up and nanoseconds % 1000 else exact
    except (ValueError, OverflowError) as wrong:
        raise InvalidQuery(f"{name}: there is no such date or time.") from wrong
