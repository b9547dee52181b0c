"""The requestors' pins in PostgreSQL: adding, showing, searching and removing them.

Knows the tables `pins`, `contents` and `work`; a pin, its content and its entry of the audit log
change in one transaction, and those that wait at the same time change together. Additions are in
additions.py, removals in removals.py, searches in pin_searches.py."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.additions import Added, Addition, not_refused
from content_gateway.ledger.pin_rows import label_columns, page_of, status_of
from content_gateway.ledger.postgres.additions import NOTIFY, TRIGGER, NotAllNew, add_all, add_new
from content_gateway.ledger.postgres.audit import AuditLog
from content_gateway.ledger.postgres.backend_health import last_health
from content_gateway.ledger.postgres.pin_searches import statement_of, status_columns
from content_gateway.ledger.postgres.removals import Removed, remove_all, replace
from content_gateway.ledger.postgres.requestors import Requestors
from content_gateway.model.audit import AuditAction
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label, Page, Pin, PinStatus, Removal, Search
from content_gateway.postgres.batched_reads import BatchedReads
from content_gateway.postgres.group_commit import GroupCommit
from content_gateway.postgres.transactions import Database, Row, Transaction

T = TypeVar("T")

_PINS_WITH_ORIGINS: Final = 20
_CAREFUL: Final = 8  # groups that are asked about first, after one that had known contents
# LIMIT keeps the planner from another order, as by all pins of a requestor.
_ASKED: Final = (
    " FROM unnest(%b::text[], %b::text[]) WITH ORDINALITY AS asked(requestor, cid, n)"
    " CROSS JOIN LATERAL (SELECT number FROM requestors"
    " WHERE requestors.requestor = asked.requestor LIMIT 1) r"
    " CROSS JOIN LATERAL (SELECT * FROM contents WHERE contents.cid = asked.cid LIMIT 1) c"
    " CROSS JOIN LATERAL (SELECT * FROM pins"
    " WHERE pins.requestor = r.number AND pins.content = c.id LIMIT 1) p"
)
_HOLDS: Final = "SELECT n" + _ASKED
_WAITS_FOR_STANDBY: Final = "SELECT current_setting('synchronous_standby_names') <> ''"
_STATUS: Final = (
    f"SELECT n, {status_columns('c.peers')}" + _ASKED + " LEFT JOIN LATERAL"  # noqa: S608 - ours
    " (SELECT * FROM work WHERE work.content = c.id LIMIT 1) w ON true"
)
_RELABEL: Final = (
    "UPDATE pins SET name = %s, folded = %s, origins = %s, meta = %s"
    " WHERE requestor = (SELECT number FROM requestors WHERE requestor = %s)"
    " AND content = (SELECT id FROM contents WHERE cid = %s) RETURNING content"
)
_ORIGINS: Final = (
    "SELECT origins FROM pins WHERE content = (SELECT id FROM contents WHERE cid = %s)"
    " AND origins IS NOT NULL ORDER BY created_at DESC LIMIT %s"
)
_PIN = tuple[str, str]  # a requestor, and a CID
_Add = Callable[
    [Transaction, int, Mapping[str, int], Sequence[Addition]], Awaitable[Sequence[Added]]
]


class PostgresPins:
    """The pins of one database; released contents are unpinned after *grace* seconds."""

    def __init__(
        self,
        database: Database,
        requestors: Requestors,
        writes: GroupCommit,
        audit: AuditLog,
        *,
        grace: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._requestors = requestors
        self._writes = writes
        self._audit = audit
        self._grace = round(grace * 1000)
        self._clock = clock
        self._has_repeats = False
        self._careful = 0
        self._holds = BatchedReads(self._ask_holds)
        self._statuses = BatchedReads(self._ask_statuses)
        # One object each: writes of the same job are committed together.
        self._add = self._add_together
        self._remove = self._remove_together

    async def holds(self, requestor: str, cid: Cid) -> bool:
        """Whether *requestor* holds *cid*."""
        return await self._holds.of((requestor, str(cid))) is not None

    async def add(
        self, requestor: str, cid: Cid, spelling: str, label: Label, *, most: int = 0
    ) -> Pin | None:
        """As `PinLedger.add`."""
        addition = Addition(requestor, cid, spelling, label, most)
        return not_refused(await self._writes.write(self._add, addition, requestor), most)

    async def relabel(self, requestor: str, cid: Cid, label: Label) -> bool:
        """As `PinLedger.relabel`. If the new label has origins, the content is retried at once."""

        async def job(transaction: Transaction) -> bool:
            values = (*label_columns(label), requestor, str(cid))
            changed = await transaction.ask(_RELABEL, values)
            if changed and label.origins:
                content = [changed[0][0]]
                await transaction.send(TRIGGER, (content, self._now() // 1000, content))
                await transaction.send(NOTIFY)
            return bool(changed)

        return await self._database.transact(job)

    async def replace(
        self, requestor: str, old: Pin, cid: Cid, spelling: str, label: Label
    ) -> Pin | None:
        """As `PinLedger.replace`."""
        numbers = await self._requestors.numbers([requestor])
        addition = Addition(requestor, cid, spelling, label)

        async def job(transaction: Transaction) -> Added:
            now = self._now()
            pin = await replace(transaction, now, old, addition, numbers=numbers, grace=self._grace)
            if isinstance(pin, Pin):
                at = now // 1000
                acts = [(requestor, str(old.cid))]
                await self._audit.append(transaction, at, AuditAction.UNPIN, acts)
                acts = [(requestor, str(cid))]
                await self._audit.append(transaction, at, AuditAction.PIN, acts)
                await transaction.send(NOTIFY)
            return pin

        pin = not_refused(await self._database.transact(job))
        await self._audit.shrink_if_due()
        return pin

    async def remove(
        self,
        requestor: str,
        cid: Cid,
        created_at: datetime | None = None,
        *,
        by_operator: bool = False,
    ) -> Removal | None:
        """As `PinLedger.remove`."""
        timestamp = None if created_at is None else microseconds(created_at)
        removed = Removed(requestor, str(cid), timestamp, by_operator)
        return await self._writes.write(self._remove, removed, requestor)

    async def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        """The requestor's pin of *cid* and how far its content is; None if there is none."""
        return await self._statuses.of((requestor, str(cid)))

    async def origins(self, cid: Cid) -> Sequence[Sequence[str]]:
        """The origins of the newest pins of *cid* that have any, by pin."""
        rows = await self._database.ask(_ORIGINS, (str(cid), _PINS_WITH_ORIGINS))
        return [msgspec.json.decode(text) for (text,) in rows]

    async def search(self, requestor: str, search: Search, shown: Callable[[Page], T]) -> T:
        """As `PinLedger.search`."""
        found = statement_of(requestor, search)

        async def job(transaction: Transaction) -> T:
            rows = await transaction.ask(found.page, found.values)
            health = await last_health(transaction)
            count = None
            if search.cursor is not None or len(rows) > search.limit or found.may_be_cut(rows):
                count = (await transaction.ask(found.count, found.values))[0][0]
            return await asyncio.to_thread(self._shown, rows, search, count, health, shown)

        return await self._database.search(job, requestor=requestor)

    def _shown(
        self,
        rows: Sequence[Row],
        search: Search,
        count: int | None,
        health: BackendHealth | None,
        shown: Callable[[Page], T],
    ) -> T:
        pins, more = page_of(rows, search.limit)
        pins = [*map(self._explained(health), pins)]
        return shown(Page(len(pins) if count is None else count, pins, more))

    async def _add_together(self, additions: Sequence[Addition]) -> Sequence[Added]:
        """Add all; where there were repeats last time, a read finds first which are there."""
        held: Mapping[_PIN, bool] = {}
        if self._has_repeats:
            asked = [(each.requestor, str(each.cid)) for each in additions]
            held = await self._ask_durable(asked)
        rest = [each for each in additions if (each.requestor, str(each.cid)) not in held]
        added = iter(await self._add_rest(rest) if rest else ())
        found = [
            None if (each.requestor, str(each.cid)) in held else next(added) for each in additions
        ]
        self._has_repeats = any(each is None for each in found)
        return found

    async def _add_rest(self, additions: Sequence[Addition]) -> Sequence[Added]:
        numbers = await self._requestors.numbers({each.requestor for each in additions})
        if self._careful:
            self._careful -= 1
            return await self._add_by(add_all, numbers, additions)
        try:
            return await self._add_by(add_new, numbers, additions)
        except NotAllNew:
            self._careful = _CAREFUL
            return await self._add_by(add_all, numbers, additions)

    async def _add_by(
        self, add: _Add, numbers: Mapping[str, int], additions: Sequence[Addition]
    ) -> Sequence[Added]:
        async def job(transaction: Transaction) -> Sequence[Added]:
            now = self._now()
            pins = await add(transaction, now, numbers, additions)
            added = [
                (each.requestor, str(each.cid))
                for each, pin in zip(additions, pins, strict=True)
                if isinstance(pin, Pin)
            ]
            if added:
                await self._audit.append(transaction, now // 1000, AuditAction.PIN, added)
                await transaction.send(NOTIFY, is_hot=True)
            return pins

        pins = await self._database.transact(job)
        await self._audit.shrink_if_due()
        return pins

    async def _remove_together(self, removals: Sequence[Removed]) -> Sequence[Removal | None]:
        numbers = await self._requestors.numbers({each.requestor for each in removals})

        async def job(transaction: Transaction) -> Sequence[Removal | None]:
            at = self._now() // 1000
            results = await remove_all(transaction, at, self._grace, numbers, removals)
            for by_operator in (False, True):
                acts = [
                    (each.requestor, each.cid)
                    for each, result in zip(removals, results, strict=True)
                    if result is not None and each.by_operator is by_operator
                ]
                await self._audit.append(
                    transaction, at, AuditAction.UNPIN, acts, by_operator=by_operator
                )
            return results

        results = await self._database.transact(job)
        await self._audit.shrink_if_due()
        return results

    async def _ask_holds(self, pins: Sequence[_PIN]) -> Mapping[_PIN, bool]:
        rows = await self._database.ask(_HOLDS, _columns(pins), is_hot=True)
        return {pins[number - 1]: True for (number,) in rows}

    async def _ask_durable(self, pins: Sequence[_PIN]) -> Mapping[_PIN, bool]:
        """As `_ask_holds`, but nothing where commits wait for a standby: a read does not, and a
        primary that has started again shows what it had committed alone."""

        async def job(transaction: Transaction) -> list[list[Row]]:
            return await transaction.ask_all((_WAITS_FOR_STANDBY, ()), (_HOLDS, _columns(pins)))

        ((waits,),), rows = await self._database.read(job)
        return {} if waits else {pins[number - 1]: True for (number,) in rows}

    async def _ask_statuses(self, pins: Sequence[_PIN]) -> Mapping[_PIN, PinStatus]:
        async def job(transaction: Transaction) -> tuple[list[Row], BackendHealth | None]:
            rows = await transaction.ask(_STATUS, _columns(pins), is_hot=True)
            return rows, await last_health(transaction)

        rows, health = await self._database.read(job)
        explained = self._explained(health)
        return {pins[row[0] - 1]: explained(status_of(row[1:])) for row in rows}

    def _explained(self, health: BackendHealth | None) -> Callable[[PinStatus], PinStatus]:
        """A function that adds the backend's health to a pin's status: in an outage, the reason."""
        if health is None or not health.is_unavailable(datetime.fromtimestamp(self._clock(), UTC)):
            return lambda status: status
        return health.explain_pin

    def _now(self) -> int:
        return round(self._clock() * 1_000_000)


def _columns(pins: Sequence[_PIN]) -> tuple[list[Any], list[Any]]:
    return [requestor for requestor, _ in pins], [cid for _, cid in pins]
