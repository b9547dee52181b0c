"""The audit log in PostgreSQL: appended to in the transactions that it tells of, and kept small.

An entry is committed with what it tells, or not at all. The oldest are deleted in transactions of
their own, so that nobody who pins waits for that. Knows the table `audit`; what is worth an entry
is left to the stores, the counting of refusals to ledger/key_activity.py."""

from collections.abc import Sequence
from typing import Final

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.audit_rows import STEP, entry_of, step_of
from content_gateway.ledger.key_activity import Counts
from content_gateway.model.audit import AuditAction, AuditEntry, AuditSearch
from content_gateway.postgres.transactions import Database, Transaction

_SEARCH_SECONDS: Final = 120.0
_APPEND: Final = (
    "INSERT INTO audit (at, requestor, is_operator, action, detail)"
    " SELECT %s, requestor, %s, %s, detail"
    " FROM unnest(%b::text[], %b::text[]) WITH ORDINALITY AS act(requestor, detail, n) ORDER BY n"
)
_COUNT: Final = (
    "INSERT INTO audit (at, requestor, is_operator, action, detail, number)"
    " VALUES (%s, %s, false, 'refused', %s, %s)"
    " ON CONFLICT (requestor, detail, at) WHERE action = 'refused'"
    " DO UPDATE SET number = audit.number + excluded.number"
)
# Who deletes the same at the same time is passed over: it is done.
_SHRINK: Final = (
    "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id <="
    " (SELECT id FROM audit ORDER BY id DESC OFFSET %s LIMIT 1)"
    " ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)"
)
_SEARCH: Final = (
    "SELECT id, at, requestor, is_operator, action, detail, number FROM audit"
    " WHERE id < coalesce(%(before)s, 9223372036854775807)"
    " AND requestor = coalesce(%(requestor)s, requestor) AND action = coalesce(%(action)s, action)"
    # Refusals count until their hour is over.
    " AND at + CASE WHEN action = 'refused' THEN 3599999 ELSE 0 END >= %(since)s"
    " ORDER BY id DESC LIMIT %(limit)s"
)


class AuditLog:
    """The writer's side: at most *entries* are kept, and a sixteenth more; 0: none is written."""

    def __init__(self, database: Database, entries: int) -> None:
        self._database = database
        self._entries = entries
        self._step = step_of(entries)
        self._since = 0  # entries that this process has appended since it has deleted some

    async def append(
        self,
        transaction: Transaction,
        at: int,
        action: AuditAction,
        acts: Sequence[tuple[str, str]],
        *,
        by_operator: bool = False,
    ) -> None:
        """Write an entry for each requestor and detail of *acts*, in *transaction*.

        *at*: milliseconds since 1970."""
        if self._entries and acts:
            requestors, details = zip(*acts, strict=True)
            values = (at, by_operator, action, list(requestors), list(details))
            await transaction.send(_APPEND, values, is_hot=True)
            self._since += len(acts)

    async def count_refusals(self, transaction: Transaction, counts: Counts) -> None:
        """Add *counts*, by requestor, code and hour (milliseconds since 1970, when it begins)."""
        if self._entries:
            for (requestor, code, hour), number in sorted(counts.items()):
                await transaction.send(_COUNT, (hour, requestor, code, number))

    async def shrink_if_due(self) -> None:
        """Delete the oldest entries, if this process has appended so many that it is time."""
        if self._since >= self._step:
            most, self._since = 4 * max(self._step, self._since), 0
            await self._database.transact(lambda transaction: self._shrink(transaction, most))

    async def shrink(self) -> None:
        """Delete some of what is too many: refusals that were counted, or all where none is kept,
        or more was kept by another setting."""
        await self._database.transact(lambda transaction: self._shrink(transaction, 4 * STEP))

    async def _shrink(self, transaction: Transaction, most: int) -> None:
        await transaction.send(_SHRINK, (self._entries, most))


async def search_audit(database: Database, search: AuditSearch) -> list[AuditEntry]:
    """A page of the entries that *search* finds, newest first; raises StorageUnavailable."""
    values = {
        "before": search.before,
        "requestor": search.requestor,
        "action": search.action,
        "since": 0 if search.since is None else milliseconds(search.since),
        "limit": search.limit,
    }

    async def job(transaction: Transaction) -> list[AuditEntry]:
        return [entry_of(row) for row in await transaction.ask(_SEARCH, values)]

    return await database.search(job, seconds=_SEARCH_SECONDS)
