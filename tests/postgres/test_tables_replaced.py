"""The tables of a ledger in PostgreSQL that are emptied, or whose database is replaced, under an
open ledger.

PostgreSQL itself keeps what it commits. What a process remembers of the tables before must not
lead into those that are there now, where the same number may be another requestor's."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest
from structlog.testing import capture_logs

from content_gateway.errors import StorageUnavailable
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.pins import NO_LABEL, Pin
from tests.ledgers import cid
from tests.waiting import eventually
from tests.world import postgres
from tests.world.postgres import Postgres

TABLES = "pins, contents, work, requestors"


@pytest.fixture
def server() -> Postgres:
    return postgres.shared("15")


def ledger_at(url: str) -> PostgresLedger:
    return PostgresLedger(ServerOptions(url, 4, 5.0), LedgerOptions(60.0, 1_000))


async def add(ledger: PostgresLedger, number: int, who: str = "anna") -> Pin | None:
    return await ledger.pins.add(who, cid(number), str(cid(number)), NO_LABEL)


def truncate(server: Postgres, name: str) -> None:
    server.run(f"TRUNCATE {TABLES}", name)


def truncate_and_begin_again(server: Postgres, name: str) -> None:
    """As a restored backup does: numbers are given out once more."""
    server.run(f"TRUNCATE {TABLES} RESTART IDENTITY", name)


def replace(server: Postgres, name: str) -> None:
    server.run(f"DROP DATABASE {name} WITH (FORCE)")
    server.run(f"CREATE DATABASE {name} TEMPLATE template_ledger")


DAMAGE = (truncate, truncate_and_begin_again, replace)
Act = Callable[[PostgresLedger, Pin], Awaitable[object]]
ACTS: dict[str, Act] = {
    "add": lambda ledger, _: add(ledger, 2),
    "remove": lambda ledger, pin: ledger.pins.remove("anna", pin.cid),
    "replace": lambda ledger, pin: ledger.pins.replace("anna", pin, cid(3), str(cid(3)), NO_LABEL),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
async def test_what_was_remembered_leads_nowhere(
    server: Postgres, damage: Callable[[Postgres, str], None], act: str
) -> None:
    """Whoever writes by the tables before is refused as by a ledger that cannot be used, the log
    says why, and nobody else's pins are touched; then all goes on in what is there."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    async with ledger_at(url) as ledger:
        pin = await add(ledger, 1)
        assert pin is not None
        await asyncio.to_thread(damage, server, name)
        async with ledger_at(url) as other:
            assert await add(other, 1, "bob") is not None

        async def is_reached() -> bool:
            try:  # connections to what was dropped are found to be broken one by one
                return await ledger.database.ask("SELECT 1") == [(1,)]
            except StorageUnavailable:
                return False

        for _ in range(4):
            await eventually(is_reached)
        with capture_logs() as logs, pytest.raises(StorageUnavailable):
            await ACTS[act](ledger, pin)
        assert [line["event"] for line in logs if line["log_level"] == "error"] == [
            "the ledger's tables were emptied or replaced, and nothing was written"
        ]
        assert await add(ledger, 4) is not None
        assert await ledger.pins.holds("anna", cid(4))
    with psycopg.connect(url) as connection:
        kept = connection.execute(
            "SELECT r.requestor, cid FROM pins p JOIN requestors r ON r.number = p.requestor"
            " JOIN contents ON id = content ORDER BY 1"
        ).fetchall()
    assert kept == [("anna", str(cid(4))), ("bob", str(cid(1)))]
