"""Issued API keys in SQL, each change with its entry of the audit log.

Knows the table `api_keys`; what a key may do is in api_keys.py, its last use in key_activity.py."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from content_gateway.api_keys import KeyRecord
from content_gateway.codecs.timestamps import milliseconds, rfc3339
from content_gateway.ledger.key_rows import (
    COLUMNS,
    limits_column,
    milliseconds_or_none,
    record_of,
    scopes_column,
)
from content_gateway.ledger.sqlite.audit import AuditLog
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.audit import AuditAction


class SqliteKeys:
    """The keys of one database. Whoever changes them is the operator."""

    def __init__(self, database: LedgerDatabase, audit: AuditLog | None = None) -> None:
        self._database = database
        self._audit = audit or AuditLog(0)

    async def find(self, secret_hash: bytes) -> KeyRecord | None:
        """The key with that hash, or that had it before its rotation; None if there is none."""
        row = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {COLUMNS} FROM api_keys"  # noqa: S608 - constant
                " WHERE secret_hash = ?1 OR replaced_hash = ?1",
                (secret_hash,),
            ).fetchone()
        )
        return None if row is None else record_of(row)

    async def all(self) -> Sequence[KeyRecord]:
        """Every key, oldest first."""
        rows = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id"  # noqa: S608 - constant
            ).fetchall()
        )
        return [record_of(row) for row in rows]

    async def insert(self, record: KeyRecord) -> bool:
        """Store a new key; False if a key that is not revoked has the name."""
        scopes = scopes_column(record)
        row = (
            record.id,
            record.name,
            record.prefix,
            record.secret_hash,
            scopes,
            milliseconds(record.created_at),
            milliseconds_or_none(record.expires_at),
            milliseconds_or_none(record.revoked_at),
            record.type,
            limits_column(record),
        )
        return await self._changes(
            "INSERT INTO api_keys (id, name, prefix, secret_hash, scopes, created_at, expires_at,"
            " revoked_at, type, limits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING id, name",
            row,
            (record.created_at, AuditAction.CREATE, f"{record.name}: {scopes}"),
        )

    async def replace_secret(
        self, name: str, secret_hash: bytes, prefix: str, at: datetime, until: datetime | None
    ) -> bool:
        """Replace the secret of a key that is valid at *at*; the old one is good *until* then.

        False if there is no such key."""
        detail = name if until is None else f"{name}: the old secret until {rfc3339(until)}"
        return await self._changes(
            "UPDATE api_keys SET replaced_hash = iif(?1 IS NULL, NULL, secret_hash),"
            " replaced_until = ?1, secret_hash = ?2, prefix = ?3"
            " WHERE name = ?4 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?5)"
            " RETURNING id, name",
            (milliseconds_or_none(until), secret_hash, prefix, name, milliseconds(at)),
            (at, AuditAction.ROTATE, detail),
        )

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke the key with that id; False if there is none, or it is revoked already."""
        return await self._changes(
            "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"
            " RETURNING id, name",
            (milliseconds(at), key_id),
            (at, AuditAction.REVOKE, None),
        )

    async def _changes(
        self,
        statement: str,
        values: tuple[object, ...],
        act: tuple[datetime, AuditAction, str | None],
    ) -> bool:
        """Whether *statement* changes a key, whose id and name it returns; *act* is its entry of
        the log, with the name where it says nothing else."""
        at, action, detail = act

        def job(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(statement, values).fetchone()
            if changed is not None:
                key_id, name = changed
                acts = [(key_id, name if detail is None else detail)]
                self._audit.append(connection, milliseconds(at), action, acts, by_operator=True)
            return changed is not None

        return await self._database.write(job)
