"""Converts rows of the table `api_keys` to values and back. No I/O.

Knows the columns, which both databases have. Statements are run by api_keys.py of each."""

from datetime import datetime
from typing import Any, Final, LiteralString

import msgspec

from content_gateway.api_keys import KeyRecord
from content_gateway.codecs.timestamps import at_milliseconds, milliseconds

COLUMNS: Final[LiteralString] = (
    "id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, type, limits,"
    " replaced_hash, replaced_until, used_at"
)


def record_of(row: tuple[Any, ...]) -> KeyRecord:
    """The value of a row with the columns COLUMNS."""
    key_id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, *rest = row
    kind, limits, replaced_hash, replaced_until, used_at = rest
    return KeyRecord(
        id=key_id,
        name=name,
        prefix=prefix,
        secret_hash=secret_hash,
        scopes=frozenset(scopes.split()),
        created_at=at_milliseconds(created_at),
        expires_at=_datetime_or_none(expires_at),
        revoked_at=_datetime_or_none(revoked_at),
        type=kind,
        limits=msgspec.json.decode(limits, type=dict[str, int]) if limits else {},
        replaced_hash=replaced_hash,
        replaced_until=_datetime_or_none(replaced_until),
        used_at=_datetime_or_none(used_at),
    )


def milliseconds_or_none(time: datetime | None) -> int | None:
    """*time* in milliseconds since 1970; None for none."""
    return None if time is None else milliseconds(time)


def _datetime_or_none(value: int | None) -> datetime | None:
    return None if value is None else at_milliseconds(value)


def scopes_column(record: KeyRecord) -> str:
    """The value of the column scopes."""
    return " ".join(sorted(record.scopes))


def limits_column(record: KeyRecord) -> str | None:
    """The value of the column limits; NULL for none."""
    return msgspec.json.encode(dict(record.limits)).decode() if record.limits else None
