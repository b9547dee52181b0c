"""The pin ledger in SQL: requestors' pins and the contents behind them.

Knows the tables `pins` and `contents`. A pin and its content change in one transaction; what a
state means, and when to look again, is decided in `pins/`."""

import sqlite3
from collections.abc import Sequence
from time import time
from typing import Final

from content_gateway.content.cid import Cid
from content_gateway.content.pins import ContentState, Due, Outcome, Pin, PinStatus
from content_gateway.storage.sqlite import Database, milliseconds, moment

_LEASE: Final = (
    "UPDATE contents SET lease_owner = ?, next_at = ? WHERE cid IN"
    " (SELECT cid FROM contents WHERE next_at <= ? AND attempts {} 0 ORDER BY next_at LIMIT ?)"
    " RETURNING cid, attempts"
)
_LEASE_RETRIES: Final = _LEASE.format(">")
_LEASE_FIRST_TRIES: Final = _LEASE.format("=")


class SqliteLedger:
    """Pins and contents of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, requestor: str, pin: Pin) -> bool:
        """Record *pin* and queue its content; False if *requestor* holds the CID already.

        Raises StorageUnavailable, and then nothing was recorded."""
        cid, created_at = str(pin.cid), milliseconds(pin.created_at)

        def job(connection: sqlite3.Connection) -> bool:
            added = connection.execute(
                "INSERT INTO pins (requestor, cid, spelling, created_at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (requestor, cid, pin.spelling, created_at),
            )
            if not added.rowcount:
                return False
            # A content that waits out a long gap is looked at again now that someone asks.
            connection.execute(
                "INSERT INTO contents (cid, state, next_at, updated_at)"
                " VALUES (:cid, 'queued', :now, :now)"
                " ON CONFLICT (cid) DO UPDATE SET next_at = min(next_at, excluded.next_at)"
                " WHERE next_at IS NOT NULL AND lease_owner IS NULL",
                {"cid": cid, "now": created_at},
            )
            return True

        return await self._database.write(job)

    def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        """The requestor's pin of *cid* and its content's state; None if there is none."""
        row = self._database.read(
            lambda connection: connection.execute(
                "SELECT spelling, created_at, state, attempts, error"
                " FROM pins JOIN contents USING (cid) WHERE requestor = ? AND cid = ?",
                (requestor, str(cid)),
            ).fetchone()
        )
        if row is None:
            return None
        spelling, created_at, state, attempts, error = row
        pin = Pin(cid, spelling, moment(created_at))
        return PinStatus(pin, ContentState(state), attempts, error)

    def any_due(self) -> bool:
        """Whether a content waits to be tended now."""
        return self._database.read(
            lambda connection: (
                connection.execute(
                    "SELECT 1 FROM contents WHERE next_at <= ? LIMIT 1", (_now(),)
                ).fetchone()
                is not None
            )
        )

    async def lease(
        self, owner: str, seconds: float, first_tries: int, retries: int
    ) -> Sequence[Due]:
        """Due contents, for *owner* alone until *seconds* have passed.

        At most *first_tries* that were never tried, and *retries* that were; what of the one is
        not needed goes to the first tries."""

        def job(connection: sqlite3.Connection) -> list[Due]:
            now = _now()
            until = now + int(seconds * 1000)
            rows = connection.execute(_LEASE_RETRIES, (owner, until, now, retries)).fetchall()
            limit = first_tries + retries - len(rows)
            rows += connection.execute(_LEASE_FIRST_TRIES, (owner, until, now, limit)).fetchall()
            return [Due(Cid.parse(cid), attempts) for cid, attempts in rows]

        return await self._database.write(job)

    async def renew(self, owner: str, cid: Cid, seconds: float) -> None:
        """Extend *owner*'s lease on *cid*, if it still holds it."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE contents SET next_at = ? WHERE cid = ? AND lease_owner = ?",
                    (_now() + int(seconds * 1000), str(cid), owner),
                ).rowcount
            )
        )

    async def release(self, owner: str) -> None:
        """Give up all of *owner*'s leases: what they covered is due now."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE contents SET lease_owner = NULL, next_at = ? WHERE lease_owner = ?",
                    (_now(), owner),
                ).rowcount
            )
        )

    async def settle(self, owner: str, due: Due, outcome: Outcome) -> None:
        """Write *outcome* and end the lease; nothing happens if *owner* has lost it."""
        attempts = 0 if outcome.state is ContentState.PINNED else due.attempts + 1

        def job(connection: sqlite3.Connection) -> int:
            now = _now()
            next_at = None if outcome.again_in is None else now + int(outcome.again_in * 1000)
            return connection.execute(
                "UPDATE contents SET state = ?, attempts = ?, next_at = ?, error = ?,"
                " lease_owner = NULL, updated_at = ? WHERE cid = ? AND lease_owner = ?",
                (outcome.state, attempts, next_at, outcome.error, now, str(due.cid), owner),
            ).rowcount

        await self._database.write(job)


def _now() -> int:
    return round(time() * 1000)
