"""Issued API keys in SQL. Knows the table `api_keys`; what a key may do is in api_keys.py."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from content_gateway.api_keys import KeyRecord
from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.ledger.database import LedgerDatabase

_COLUMNS = "id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, type, limits"


class SqliteKeys:
    """The keys of one database."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    def find(self, secret_hash: bytes) -> KeyRecord | None:
        """The key with that hash; None if there is none."""
        row = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {_COLUMNS} FROM api_keys WHERE secret_hash = ?",  # noqa: S608 - constant
                (secret_hash,),
            ).fetchone()
        )
        return None if row is None else _record(row)

    def all(self) -> Sequence[KeyRecord]:
        """Every key, oldest first."""
        rows = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id"  # noqa: S608 - constant
            ).fetchall()
        )
        return [_record(row) for row in rows]

    async def insert(self, record: KeyRecord) -> bool:
        """Store a new key; False if the name is taken."""
        row = (
            record.id,
            record.name,
            record.prefix,
            record.secret_hash,
            " ".join(sorted(record.scopes)),
            milliseconds(record.created_at),
            _milliseconds_or_none(record.expires_at),
            _milliseconds_or_none(record.revoked_at),
            record.type,
            msgspec.json.encode(dict(record.limits)).decode() if record.limits else None,
        )
        return await self._changes(
            f"INSERT INTO api_keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
            " ON CONFLICT (name) DO NOTHING",
            row,
        )

    async def replace_secret(
        self, name: str, secret_hash: bytes, prefix: str, at: datetime
    ) -> bool:
        """Replace the secret of a key that is valid at *at*; False if there is none."""
        return await self._changes(
            "UPDATE api_keys SET secret_hash = ?, prefix = ?"
            " WHERE name = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
            (secret_hash, prefix, name, milliseconds(at)),
        )

    async def revoke(self, name: str, at: datetime) -> bool:
        """Revoke a key; False if there is no such key, or it is revoked already."""
        return await self._changes(
            "UPDATE api_keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL",
            (milliseconds(at), name),
        )

    async def _changes(self, statement: str, values: tuple[object, ...]) -> bool:
        def job(connection: sqlite3.Connection) -> bool:
            return connection.execute(statement, values).rowcount > 0

        return await self._database.write(job)


def _record(row: tuple[Any, ...]) -> KeyRecord:
    key_id, name, prefix, secret_hash, scopes, created_at, expires_at, revoked_at, kind, limits = (
        row
    )
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
    )


def _milliseconds_or_none(time: datetime | None) -> int | None:
    return None if time is None else milliseconds(time)


def _datetime_or_none(value: int | None) -> datetime | None:
    return None if value is None else at_milliseconds(value)
