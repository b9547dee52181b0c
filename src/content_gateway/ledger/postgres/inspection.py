"""What a database that should hold a ledger has: of which version, how much, and what must not be.

Knows the tables; reads all of them, at one moment. What follows from the findings is left to the
commands."""

from typing import Final

from content_gateway.ledger.inspection import (
    CONTRADICTIONS,
    SAMPLE,
    Contradiction,
    Finding,
    Inspection,
    miscounted,
)
from content_gateway.ledger.postgres.requestors import PINS_OF_REQUESTOR
from content_gateway.postgres.migrations import Migrations
from content_gateway.postgres.transactions import Database, Transaction

_SECONDS: Final = 3_600.0
_CONTRADICTIONS: Final = (
    *CONTRADICTIONS,
    Contradiction(
        "contents that are not pinned, and that nobody reconciles",
        "SELECT cid FROM contents WHERE state <> 'pinned'"
        " AND NOT EXISTS (SELECT 1 FROM work WHERE content = contents.id)",
    ),
    miscounted(PINS_OF_REQUESTOR),
)


async def inspect(database: Database, migrations: Migrations) -> Inspection:
    """All that can be said of the ledger, as it is at one moment; raises StorageUnavailable."""
    found = await migrations.found(database)
    if found.version != migrations.current:
        return Inspection(found.version, migrations.current, None, None, None, (), False)

    async def job(transaction: Transaction) -> Inspection:
        keys, pins, contents = [
            (await transaction.ask(f"SELECT count(*) FROM {table}"))[0][0]  # noqa: S608 - ours
            for table in ("api_keys", "pins", "contents")
        ]
        findings = []
        for wrong in _CONTRADICTIONS:
            counted = await transaction.ask(f"SELECT count(*) FROM ({wrong.query}) found")  # noqa: S608
            if count := counted[0][0]:
                rows = await transaction.ask(f"{wrong.query} LIMIT {SAMPLE}")
                sample = tuple(str(text) for (text,) in rows)
                findings.append(Finding(wrong.words, count, sample, wrong.remedy))
        version, current = found.version, migrations.current
        return Inspection(version, current, keys, pins, contents, tuple(findings), False)

    return await database.search(job, seconds=_SECONDS, is_ours=True)
