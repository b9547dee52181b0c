"""The requestors' pins in SQL: adding, showing, searching and removing them.

Knows the tables `pins` and `contents`; a pin, its content and its entry of the audit log change in
one transaction. Transitions are in model/content_state.py; the reconciler's reads and writes in
contents.py."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.additions import Added, Addition, not_refused
from content_gateway.ledger.pin_rows import (
    LISTED,
    STATUS,
    label_columns,
    page_of,
    status_of,
)
from content_gateway.ledger.sqlite.additions import add_all, trigger
from content_gateway.ledger.sqlite.audit import AuditLog
from content_gateway.ledger.sqlite.backend_health import last_health
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pin_searches import conditions_of
from content_gateway.ledger.sqlite.requestors import assign_to_shortest_queue, count_pins
from content_gateway.model.audit import AuditAction
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Event, after
from content_gateway.model.pins import (
    Label,
    Page,
    Pin,
    PinStatus,
    Removal,
    Search,
)

T = TypeVar("T")

_PINS_WITH_ORIGINS: Final = 20


class SqlitePins:
    """The pins of one database; released contents are unpinned after *grace* seconds."""

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        grace: float,
        audit: AuditLog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._grace = round(grace * 1000)
        self._audit = audit or AuditLog(0)
        self._clock = clock

    async def holds(self, requestor: str, cid: Cid) -> bool:
        """Whether *requestor* holds *cid*. Readers see only durable transactions."""
        values = (requestor, str(cid))
        return self._database.read(
            lambda connection: (
                connection.execute(
                    "SELECT 1 FROM pins WHERE requestor = ?"
                    " AND content = (SELECT id FROM contents WHERE cid = ?)",
                    values,
                ).fetchone()
                is not None
            )
        )

    async def add(
        self, requestor: str, cid: Cid, spelling: str, label: Label, *, most: int = 0
    ) -> Pin | None:
        """As `PinLedger.add`."""
        # A repeated pin is found by a read, without a transaction. But while the writer's thread is
        # busy a read would wait for the interpreter lock (GIL), so it is left to the write.
        if not self._database.is_writing and await self.holds(requestor, cid):
            return None
        addition = Addition(requestor, cid, spelling, label, most)
        added = await self._database.write_together(self._add_all, addition, requestor=requestor)
        return not_refused(added, most)

    async def relabel(self, requestor: str, cid: Cid, label: Label) -> bool:
        """As `PinLedger.relabel`. If the new label has origins, the content is retried at once."""
        values = (*label_columns(label), requestor, str(cid))

        def job(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(
                "UPDATE pins SET name = ?, folded = ?, origins = ?, meta = ? WHERE requestor = ?"
                " AND content = (SELECT id FROM contents WHERE cid = ?) RETURNING content",
                values,
            ).fetchone()
            if changed is not None and label.origins:
                trigger(connection, changed[0], round(self._clock() * 1000))
            return changed is not None

        return await self._database.write(job, requestor=requestor)

    async def replace(
        self, requestor: str, old: Pin, cid: Cid, spelling: str, label: Label
    ) -> Pin | None:
        """Remove *old* and add another pin in one transaction; None if *old* is not there."""

        def job(connection: sqlite3.Connection) -> Pin | None:
            held = connection.execute(
                "SELECT content, (SELECT max(created_at) FROM pins WHERE requestor = :requestor)"
                " FROM pins WHERE requestor = :requestor AND created_at = :created_at",
                {"requestor": requestor, "created_at": microseconds(old.created_at)},
            ).fetchone()
            if held is None:
                return None
            content, last = held
            # The requestor may hold the new CID already, by *old* or another pin: replace that too.
            removed = connection.execute(
                "DELETE FROM pins WHERE requestor = ?"
                " AND content IN (?, (SELECT id FROM contents WHERE cid = ?))",
                (requestor, content, str(cid)),
            )
            count_pins(connection, requestor, -removed.rowcount)
            new = [Addition(requestor, cid, spelling, label)]
            self._note_removal(connection, requestor, old.cid)
            (pin,) = self._add_all(connection, new, {requestor: last})
            self._release(connection, content)
            return not_refused(pin)

        return await self._database.write(job, requestor=requestor)

    async def remove(
        self,
        requestor: str,
        cid: Cid,
        created_at: datetime | None = None,
        *,
        by_operator: bool = False,
    ) -> Removal | None:
        """As `PinLedger.remove`."""
        values = {
            "requestor": requestor,
            "cid": str(cid),
            "created_at": None if created_at is None else microseconds(created_at),
        }

        def job(connection: sqlite3.Connection) -> Removal | None:
            gone = connection.execute(
                "DELETE FROM pins WHERE requestor = :requestor"
                " AND content = (SELECT id FROM contents WHERE cid = :cid)"
                " AND created_at = coalesce(:created_at, created_at) RETURNING content",
                values,
            ).fetchone()
            if gone is None:
                return None
            count_pins(connection, requestor, -1)
            self._note_removal(connection, requestor, cid, by_operator=by_operator)
            return Removal.RELEASED if self._release(connection, gone[0]) else Removal.STILL_HELD

        return await self._database.write(job, requestor=requestor)

    async def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        """The requestor's pin of *cid* and how far its content is; None if there is none."""
        row = self._database.read(
            lambda connection: connection.execute(
                f"SELECT {STATUS} FROM contents JOIN pins ON content = id"  # noqa: S608 - constant
                " WHERE requestor = ? AND cid = ?",
                (requestor, str(cid)),
            ).fetchone()
        )
        return None if row is None else self._database.read(self._with_health)(status_of(row))

    async def origins(self, cid: Cid) -> Sequence[Sequence[str]]:
        """The origins of the newest pins of *cid* that have any, by pin."""
        rows = self._database.read(
            lambda connection: connection.execute(
                "SELECT origins FROM pins WHERE content = (SELECT id FROM contents WHERE cid = ?)"
                " AND origins IS NOT NULL ORDER BY created_at DESC LIMIT ?",
                (str(cid), _PINS_WITH_ORIGINS),
            ).fetchall()
        )
        return [msgspec.json.decode(text) for (text,) in rows]

    async def search(self, requestor: str, search: Search, shown: Callable[[Page], T]) -> T:
        """As `PinLedger.search`."""
        wanted, values = conditions_of(requestor, search)

        def job(connection: sqlite3.Connection) -> T:
            rows = connection.execute(
                f"SELECT {LISTED} FROM pins JOIN contents ON id = content"  # noqa: S608 - ours
                f" WHERE {wanted} AND created_at < :cursor ORDER BY created_at DESC LIMIT :limit",
                values,
            )
            pins, more = page_of(rows, search.limit)
            pins = list(map(self._with_health(connection), pins))
            is_complete = search.cursor is None and not more
            count = len(pins) if is_complete else _count(connection, wanted, values)
            return shown(Page(count, pins, more))

        return await self._database.search(job, requestor=requestor)

    def _add_all(
        self,
        connection: sqlite3.Connection,
        additions: Sequence[Addition],
        last: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Added]:
        now = self._clock()
        pins = add_all(connection, round(now * 1_000_000), additions, last)
        added = [
            (each.requestor, str(each.cid))
            for each, pin in zip(additions, pins, strict=True)
            if isinstance(pin, Pin)
        ]
        self._audit.append(connection, round(now * 1000), AuditAction.PIN, added)
        return pins

    def _note_removal(
        self, connection: sqlite3.Connection, requestor: str, cid: Cid, *, by_operator: bool = False
    ) -> None:
        acts = [(requestor, str(cid))]
        at = round(self._clock() * 1000)
        self._audit.append(connection, at, AuditAction.UNPIN, acts, by_operator=by_operator)

    def _with_health(self, connection: sqlite3.Connection) -> Callable[[PinStatus], PinStatus]:
        """A function that adds the backend's health to a pin's status: in an outage, the reason."""
        health = last_health(connection)
        if health is None or not health.is_unavailable(datetime.fromtimestamp(self._clock(), UTC)):
            return lambda status: status
        return health.explain_pin

    def _release(self, connection: sqlite3.Connection, content: int) -> bool:
        """Release the content if nobody holds it any more; returns whether that is so."""
        row = connection.execute(
            "SELECT state FROM contents"
            " WHERE id = ? AND NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id)",
            (content,),
        ).fetchone()
        if row is None:
            # The removed pin may have been the one it waited for.
            assign_to_shortest_queue(connection, content)
            return False
        now = round(self._clock() * 1000)
        # A worker may hold the lease: its outcome has the old generation and will be dropped. Its
        # lease stays, so the content is not leased twice.
        connection.execute(
            "UPDATE contents SET state = :state, generation = generation + 1, attempts = 0,"
            " status_checks = 0, error = NULL, updated_at = :now,"
            " next_at = CASE WHEN lease_owner IS NULL THEN :due ELSE max(next_at, :due) END"
            " WHERE id = :content",
            {
                "state": after(ContentState(row[0]), Event.RELEASED),
                "content": content,
                "now": now,
                "due": now + self._grace,
            },
        )
        return True


def _count(connection: sqlite3.Connection, wanted: str, values: dict[str, Any]) -> int:
    # Without the join SQLite counts along one index.
    is_plain = not {"states", "cids"} & values.keys()
    tables = "pins" if is_plain else "pins JOIN contents ON id = content"
    (count,) = connection.execute(
        f"SELECT count(*) FROM {tables} WHERE {wanted}",  # noqa: S608 - ours
        values,
    ).fetchone()
    return int(count)
