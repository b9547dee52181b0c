"""Behind PgBouncer in transaction mode: no session settings, no prepared statements, no LISTEN."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.pins import NO_LABEL, Search
from tests.ledgers import as_it_is, cid, quota
from tests.waiting import eventually
from tests.world import postgres
from tests.world.peers import free_port, require_peer


@pytest.fixture
async def pooled(tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a ledger behind a pooler with two connections."""
    program, server = require_peer("pgbouncer"), postgres.shared("15")
    name, port = server.new_ledger().rpartition("/")[2], free_port()
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        "[databases]\n"
        f"{name} = host=127.0.0.1 port={server.port} dbname={name} user={postgres.USER}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
    )
    command = postgres.as_ordinary_user([program.resolve(), config])
    pooler = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"postgresql://{postgres.USER}@127.0.0.1:{port}/{name}"

    async def answers() -> bool:
        try:
            await (await psycopg.AsyncConnection.connect(url)).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        await eventually(answers)
        yield url
    finally:
        pooler.terminate()
        await asyncio.to_thread(pooler.wait, 10)


async def test_a_pooler_in_transaction_mode_will_do(pooled: str) -> None:
    """Eight connections of ours share two of the server's: pins, reads, searches and leases; what
    is heard elsewhere is polled."""
    async with PostgresLedger(ServerOptions(pooled), LedgerOptions(60.0, 1_000)) as ledger:
        assert ledger.database.connections.is_pooled
        ledger.listen(lambda: None)
        for _ in range(5):  # more often than statements are prepared after
            adding = (
                ledger.pins.add(f"who {n % 9}", cid(n), str(cid(n)), NO_LABEL) for n in range(200)
            )
            await asyncio.gather(*adding)
        reads = await asyncio.gather(
            *(ledger.pins.holds(f"who {n % 9}", cid(n)) for n in range(200))
        )
        assert all(reads)
        pages = await asyncio.gather(
            *(ledger.pins.search(f"who {n}", Search(), as_it_is) for n in range(9))
        )
        assert sum(page.count for page in pages) == 200
        assert len(await ledger.work.lease("a", 30.0, quota(50))) == 100
        settings = "SELECT current_setting('statement_timeout'), current_setting('enable_seqscan')"
        assert await ledger.database.ask(settings) == [("5s", "off")]
