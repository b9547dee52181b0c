"""When keys were last used, and what they were refused, in SQLite.

Knows the column `used_at`; refusals are in the audit log (audit.py). What is noted until then is
left to ledger/key_activity.py."""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.key_activity import FLUSH_SECONDS, Counts, NotedActivity
from content_gateway.ledger.sqlite.audit import AuditLog
from content_gateway.ledger.sqlite.database import LedgerDatabase


class SqliteKeyActivity(NotedActivity):
    """The activity that is not written yet, and the task that writes it."""

    def __init__(
        self,
        database: LedgerDatabase,
        audit: AuditLog,
        *,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        async def write(used: Mapping[str, int], refused: Counts) -> None:
            now = milliseconds(today())

            def job(connection: sqlite3.Connection) -> None:
                # Another process may have noted a later minute and written it before; a minute
                # that has not come yet was written by a wrong clock.
                rows = [(at, key, at, now) for key, at in used.items()]
                connection.executemany(
                    "UPDATE api_keys SET used_at = ? WHERE id = ?"
                    " AND (used_at IS NULL OR used_at < ? OR used_at > ?)",
                    rows,
                )
                audit.count_refusals(connection, refused)
                audit.shrink(connection)

            await database.write(job, durable=False)

        super().__init__(write, today=today, flush_seconds=flush_seconds)
