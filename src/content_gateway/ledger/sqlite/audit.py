"""The audit log in SQL: appended to in the transactions that it tells of, searched by operators.

An entry is committed with what it tells, or not at all. Knows the table `audit` and keeps it small:
every so many entries the oldest are deleted, a bounded number at a time. What is worth an entry is
left to the writers of pins and keys, and the counting of refusals to key_activity.py."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.audit_rows import STEP, entry_of, step_of
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.audit import AuditAction, AuditEntry, AuditSearch

_SEARCH_SECONDS: Final = 120.0
# One statement for all: each costs a switch of threads, and SQLite reads JSON without one.
_APPEND: Final = (
    "INSERT INTO audit (at, requestor, is_operator, action, detail)"
    " SELECT :at, value ->> 0, :is_operator, :action, value ->> 1 FROM json_each(:acts)"
)
_COUNT: Final = (
    "INSERT INTO audit (at, requestor, is_operator, action, detail, number)"
    " VALUES (:hour, :requestor, 0, 'refused', :code, :number)"
    " ON CONFLICT (requestor, detail, at) WHERE action = 'refused'"
    " DO UPDATE SET number = number + excluded.number"
)
_SEARCH: Final = (
    "SELECT id, at, requestor, is_operator, action, detail, number FROM audit"
    " WHERE id < coalesce(:before, 9223372036854775807)"
    " AND requestor = coalesce(:requestor, requestor) AND action = coalesce(:action, action)"
    " AND at + iif(action = 'refused', 3599999, 0) >= :since"  # until their hour is over
    " ORDER BY id DESC LIMIT :limit"
)


class AuditLog:
    """The writer's side: at most *entries* are kept, and a sixteenth more; 0: none is written."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._step = step_of(entries)

    def append(
        self,
        connection: sqlite3.Connection,
        at: int,
        action: AuditAction,
        acts: Sequence[tuple[str, str]],
        *,
        by_operator: bool = False,
    ) -> None:
        """Write an entry for each requestor and detail of *acts*, in the transaction that is open.

        *at*: milliseconds since 1970."""
        if not self._entries or not acts:
            return
        values = {
            "at": at,
            "action": action,
            "is_operator": by_operator,
            "acts": msgspec.json.encode(acts).decode(),
        }
        last = connection.execute(_APPEND, values).lastrowid or 0
        if last // self._step != (last - len(acts)) // self._step:
            self._shrink(connection, last, 4 * max(self._step, len(acts)))

    def count_refusals(
        self, connection: sqlite3.Connection, counts: Mapping[tuple[str, str, int], int]
    ) -> None:
        """Add *counts*, by requestor, code and hour (milliseconds since 1970, when it begins)."""
        if self._entries:
            for (requestor, code, hour), number in counts.items():
                values = {"requestor": requestor, "code": code, "hour": hour, "number": number}
                connection.execute(_COUNT, values)

    def shrink(self, connection: sqlite3.Connection) -> None:
        """Delete some of what is too many: refusals that were counted, or all where none is kept,
        or more was kept by another setting."""
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM audit").fetchone()
        self._shrink(connection, last, 4 * STEP)

    def _shrink(self, connection: sqlite3.Connection, last: int, most: int) -> None:
        connection.execute(
            "DELETE FROM audit WHERE id <= ? AND id < (SELECT min(id) FROM audit) + ?",
            (last - self._entries, most),
        )


async def search_audit(database: LedgerDatabase, search: AuditSearch) -> list[AuditEntry]:
    """A page of the entries that *search* finds, newest first; raises StorageUnavailable."""
    values = {
        "before": search.before,
        "requestor": search.requestor,
        "action": search.action,
        "since": 0 if search.since is None else milliseconds(search.since),
        "limit": search.limit,
    }

    def job(connection: sqlite3.Connection) -> list[AuditEntry]:
        return list(map(entry_of, connection.execute(_SEARCH, values)))

    return await database.search(job, seconds=_SEARCH_SECONDS)
