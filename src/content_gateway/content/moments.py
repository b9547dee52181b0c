"""Moments as text.

Knows the one form in which this service writes them: RFC 3339, UTC, milliseconds. Where moments
come from is left to whoever has a clock."""

from datetime import datetime


def rfc3339(moment: datetime) -> str:
    """*moment* (UTC) as `2026-11-21T12:00:00.000Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
