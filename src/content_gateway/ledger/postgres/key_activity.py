"""When keys were last used, and what they were refused, in PostgreSQL.

Knows the column `used_at`; refusals are in the audit log (audit.py). What is noted until then is
left to ledger/key_activity.py."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.ledger.key_activity import FLUSH_SECONDS, Counts, NotedActivity
from content_gateway.ledger.postgres.audit import AuditLog
from content_gateway.postgres.transactions import Database, Transaction

# The later use wins, in whatever order two processes write; but a minute that has not come yet was
# written by a wrong clock. In the order of ids.
_USED: Final = (
    "WITH used AS MATERIALIZED (SELECT api_keys.id, at FROM api_keys"
    " JOIN unnest(%s::text[], %s::bigint[]) AS noted(id, at) USING (id)"
    " ORDER BY api_keys.id FOR NO KEY UPDATE OF api_keys)"
    " UPDATE api_keys SET used_at = at FROM used WHERE api_keys.id = used.id"
    " AND (used_at IS NULL OR used_at < at OR used_at > %s)"
)


class PostgresKeyActivity(NotedActivity):
    """The activity that is not written yet, and the task that writes it."""

    def __init__(
        self,
        database: Database,
        audit: AuditLog,
        *,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        async def write(used: Mapping[str, int], refused: Counts) -> None:
            async def job(transaction: Transaction) -> None:
                now = milliseconds(today())
                await transaction.send(_USED, (list(used), list(used.values()), now))
                await audit.count_refusals(transaction, refused)

            await database.transact(job)
            await audit.shrink()

        super().__init__(write, today=today, flush_seconds=flush_seconds)
