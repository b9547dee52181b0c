"""Timestamps as text and as numbers.

Knows the form in which this service writes them, RFC 3339 in UTC, and the two in which they are
stored and told apart: milliseconds and microseconds since 1970."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


def rfc3339(timestamp: datetime) -> str:
    """*timestamp* (UTC) as `2026-11-21T12:00:00.000Z`."""
    return timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact_rfc3339(timestamp: datetime) -> str:
    """*timestamp* (UTC) to the microsecond, in milliseconds where those are all: not every program
    reads more than three digits."""
    spec = "microseconds" if timestamp.microsecond % 1000 else "milliseconds"
    return timestamp.isoformat(timespec=spec).replace("+00:00", "Z")


def milliseconds(timestamp: datetime) -> int:
    """Whole milliseconds from 1970 to *timestamp*."""
    return (timestamp - _EPOCH) // _MILLISECOND


def at_milliseconds(number: int) -> datetime:
    """The timestamp (UTC) *number* milliseconds after 1970; OverflowError beyond the year 9999."""
    return _EPOCH + number * _MILLISECOND


def microseconds(timestamp: datetime) -> int:
    """Whole microseconds from 1970 to *timestamp*."""
    return (timestamp - _EPOCH) // _MICROSECOND


def at_microseconds(number: int) -> datetime:
    """The timestamp (UTC) *number* microseconds after 1970; OverflowError beyond the year 9999."""
    return _EPOCH + number * _MICROSECOND


def rfc3339_or_none(timestamp: datetime | None) -> str | None:
    """*timestamp* as `rfc3339` spells it, None if it is None."""
    return None if timestamp is None else rfc3339(timestamp)
