"""Issued API keys in PostgreSQL, each change with its entry of the audit log.

Knows the table `api_keys`; what a key may do is in api_keys.py, its last use in key_activity.py."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from content_gateway.api_keys import KeyRecord
from content_gateway.codecs.timestamps import milliseconds, rfc3339
from content_gateway.ledger.key_rows import (
    COLUMNS,
    limits_column,
    milliseconds_or_none,
    record_of,
    scopes_column,
)
from content_gateway.ledger.postgres.audit import AuditLog
from content_gateway.ledger.postgres.requestors import Requestors, lock_requestors
from content_gateway.model.audit import AuditAction
from content_gateway.postgres.batched_reads import BatchedReads
from content_gateway.postgres.transactions import Database, Transaction

_FIND: Final = (
    f"SELECT {COLUMNS} FROM api_keys"  # noqa: S608 - constants
    " WHERE secret_hash = ANY(%(hashes)s::bytea[])"
    f" UNION SELECT {COLUMNS} FROM api_keys WHERE replaced_hash = ANY(%(hashes)s::bytea[])"
)
_INSERT: Final = (
    "INSERT INTO api_keys (id, name, prefix, secret_hash, scopes, created_at, expires_at,"
    " revoked_at, type, limits) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING id, name"
)
_REPLACE: Final = (
    "UPDATE api_keys SET replaced_hash = CASE WHEN %(until)s::bigint IS NULL THEN NULL"
    " ELSE secret_hash END, replaced_until = %(until)s, secret_hash = %(hash)s, prefix = %(prefix)s"
    " WHERE name = %(name)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(at)s)"
    " RETURNING id, name"
)
_REVOKE: Final = (
    "UPDATE api_keys SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL RETURNING id, name"
)


class PostgresKeys:
    """The keys of one database. Whoever changes them is the operator."""

    def __init__(self, database: Database, requestors: Requestors, audit: AuditLog) -> None:
        self._database = database
        self._requestors = requestors
        self._audit = audit
        self._found = BatchedReads(self._find)

    async def find(self, secret_hash: bytes) -> KeyRecord | None:
        """The key with that hash, or that had it before its rotation; None if there is none."""
        return await self._found.of(secret_hash)

    async def all(self) -> Sequence[KeyRecord]:
        """Every key, oldest first."""
        rows = await self._database.ask(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id")  # noqa: S608
        return [record_of(row) for row in rows]

    async def insert(self, record: KeyRecord) -> bool:
        """Store a new key; False if a key that is not revoked has the name."""
        scopes = scopes_column(record)
        row = (
            *(record.id, record.name, record.prefix, record.secret_hash, scopes),
            milliseconds(record.created_at),
            milliseconds_or_none(record.expires_at),
            milliseconds_or_none(record.revoked_at),
            *(record.type, limits_column(record)),
        )
        act = (record.created_at, AuditAction.CREATE, f"{record.name}: {scopes}")
        return await self._changes(_INSERT, row, act)

    async def replace_secret(
        self, name: str, secret_hash: bytes, prefix: str, at: datetime, until: datetime | None
    ) -> bool:
        """Replace the secret of a key that is valid at *at*; the old one is good *until* then.

        False if there is no such key."""
        detail = name if until is None else f"{name}: the old secret until {rfc3339(until)}"
        values = {
            "until": milliseconds_or_none(until),
            "hash": secret_hash,
            "prefix": prefix,
            "name": name,
            "at": milliseconds(at),
        }
        return await self._changes(_REPLACE, values, (at, AuditAction.ROTATE, detail))

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke the key with that id; False if there is none, or it is revoked already."""
        # Whoever adds a pin of it has its requestor locked: those that this waits for are kept, and
        # those that wait for this are refused.
        numbers = await self._requestors.numbers([key_id])
        act = (at, AuditAction.REVOKE, None)
        return await self._changes(_REVOKE, (milliseconds(at), key_id), act, numbers)

    async def _changes(
        self,
        statement: str,
        values: tuple[object, ...] | dict[str, Any],
        act: tuple[datetime, AuditAction, str | None],
        locks: Mapping[str, int] | None = None,
    ) -> bool:
        """Whether *statement* changes a key, whose id and name it returns; *act* is its entry of
        the log, with the name where it says nothing else. The requestors of *locks* are locked."""
        at, action, detail = act

        async def job(transaction: Transaction) -> bool:
            if locks:
                await lock_requestors(transaction, locks)
            changed = await transaction.ask(statement, values)
            for key_id, name in changed:
                acts = [(key_id, name if detail is None else detail)]
                at_milliseconds = milliseconds(at)
                await self._audit.append(
                    transaction, at_milliseconds, action, acts, by_operator=True
                )
            return bool(changed)

        return await self._requestors.transact(job)

    async def _find(self, hashes: Sequence[bytes]) -> Mapping[bytes, KeyRecord]:
        found: dict[bytes, KeyRecord] = {}
        for row in await self._database.ask(_FIND, {"hashes": list(hashes)}, is_hot=True):
            record = record_of(row)
            found[record.secret_hash] = record
            if record.replaced_hash is not None:
                found.setdefault(record.replaced_hash, record)
        return found
