"""How `keys list` prints a key: as JSON, and as the columns of a table.

Knows no command and does no I/O."""

from datetime import UTC, datetime
from typing import Any, Final

from content_gateway.api_keys import KeyRecord
from content_gateway.cli.status_line import bytes_text
from content_gateway.codecs.timestamps import rfc3339_or_none
from content_gateway.model.pins import Holdings

HEADINGS: Final = (
    *("name", "id", "prefix", "state", "type", "scopes", "created", "expires"),
    *("pins", "bytes", "last use"),
)


def whole(record: KeyRecord, holdings: Holdings) -> dict[str, Any]:
    """Everything about a key. *bytes* is null where the size of no pin is known; *unsizedPins* is
    the number of those that are left out of it."""
    now = datetime.now(UTC)
    is_known = holdings.pins == 0 or holdings.unsized < holdings.pins
    grace = record.replaced_until
    return {
        "name": record.name,
        "id": record.id,
        "prefix": record.prefix,
        "scopes": _scopes(record),
        "type": record.type,
        "limits": dict(record.limits),
        "created": rfc3339_or_none(record.created_at),
        "expires": rfc3339_or_none(record.expires_at),
        "revoked": rfc3339_or_none(record.revoked_at),
        "graceUntil": rfc3339_or_none(grace) if grace is not None and grace > now else None,
        "state": _state(record),
        "pins": holdings.pins,
        "bytes": holdings.size if is_known else None,
        "unsizedPins": holdings.unsized,
        "lastUsed": rfc3339_or_none(record.used_at),
    }


def columns(record: KeyRecord, holdings: Holdings) -> tuple[str, ...]:
    """The cells of a key's row; empty where there is nothing to tell."""
    return (
        record.name,
        record.id,
        record.prefix,
        _state(record),
        record.type or "",
        _scopes(record),
        _text(record.created_at),
        _text(record.expires_at),
        f"{holdings.pins:,}",
        _bytes(holdings),
        _text(record.used_at),
    )


def _bytes(holdings: Holdings) -> str:
    if not holdings.unsized:
        return bytes_text(holdings.size)
    if holdings.unsized == holdings.pins:
        return "unknown"
    return f"{bytes_text(holdings.size)} + {holdings.unsized:,} unknown"


def _state(record: KeyRecord) -> str:
    return record.refusal(datetime.now(UTC)) or "valid"


def _scopes(record: KeyRecord) -> str:
    return " ".join(sorted(record.scopes))


def _text(timestamp: datetime | None) -> str:
    return "" if timestamp is None else timestamp.strftime("%Y-%m-%d %H:%M")
