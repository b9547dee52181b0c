"""What the tests of last known answers share: some answers, a clock, and waiting for rows."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from content_gateway.ledger.last_known import StoreLimits
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.last_known import SqliteLastKnown
from content_gateway.model.records import Records
from tests.waiting import until

AT = datetime(2026, 11, 21, 12, 0, 0, 123_000, tzinfo=UTC)
WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
ALICE = Records(WALLET)
BOB = Records("0x" + "bb" * 20)
EAGER = StoreLimits(flush_seconds=0.0)


def a_day_later() -> datetime:
    return AT + timedelta(days=1)


@asynccontextmanager
async def opened(
    folder: Path, bounds: StoreLimits = EAGER, *, today: Callable[[], datetime] = a_day_later
) -> AsyncIterator[SqliteLastKnown]:
    async with (
        LedgerDatabase(folder / "ledger.sqlite") as database,
        SqliteLastKnown(database, bounds=bounds, today=today) as known,
    ):
        yield known


async def wait_for_rows(folder: Path, rows: int, *, table: str = "resolutions") -> None:
    """Wait until *table* has exactly so many rows; raises TimeoutError after a while."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db:
        count = f"SELECT count(*) FROM {table}"
        await until(lambda: db.execute(count).fetchone() == (rows,))
