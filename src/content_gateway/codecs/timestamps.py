"""Moments as text and as numbers.

Knows the one form in which this service writes them, RFC 3339 in UTC, and the two in which they are
stored and told apart: milliseconds and microseconds since 1970."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def rfc3339(moment: datetime) -> str:
    """*moment* (UTC) as `2026-11-21T12:00:00.000Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(moment: datetime) -> int:
    """Whole milliseconds from 1970 to *moment*."""
    return (moment - _EPOCH) // _MILLISECOND


def at_milliseconds(number: int) -> datetime:
    """The moment (UTC) *number* milliseconds after 1970; OverflowError beyond the year 9999."""
    return _EPOCH + number * _MILLISECOND


def microseconds(moment: datetime) -> int:
    """Whole microseconds from 1970 to *moment*."""
    return (moment - _EPOCH) // _MICROSECOND


def at_microseconds(number: int) -> datetime:
    """The moment (UTC) *number* microseconds after 1970; OverflowError beyond the year 9999."""
    return _EPOCH + number * _MICROSECOND


def rfc3339_or_none(moment: datetime | None) -> str | None:
    """*moment* as `rfc3339` spells it, None if it is None."""
    return None if moment is None else rfc3339(moment)
