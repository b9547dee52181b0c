"""A database that is wrong is refused at the start, in words; one that is away, full or slow later
costs a 503, nothing is lost, and the service comes back by itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from structlog.testing import capture_logs

from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.pins import NO_LABEL, Pin
from tests.ledgers import cid
from tests.postgres.toxic import linked
from tests.waiting import eventually
from tests.world import postgres
from tests.world.peers import free_port
from tests.world.postgres import Postgres


@pytest.fixture
def server() -> Postgres:
    return postgres.shared("15")


@pytest.fixture
def own() -> Iterator[Postgres]:
    """A server that a test may stop."""
    with postgres.durable("15") as server:
        yield server


def ledger_at(url: str, *, seconds: float = 5.0, connections: int = 4) -> PostgresLedger:
    return PostgresLedger(ServerOptions(url, connections, seconds), LedgerOptions(60.0, 1_000))


async def add(ledger: PostgresLedger, *numbers: int, who: str = "anna") -> list[Pin | None]:
    adding = (ledger.pins.add(who, cid(n), str(cid(n)), NO_LABEL) for n in numbers)
    return list(await asyncio.gather(*adding))


async def refusal(url: str) -> str:
    with pytest.raises(WrongSettings) as refused:
        async with ledger_at(url):
            pass
    return refused.value.detail


@asynccontextmanager
async def database(server: Postgres, options: str) -> AsyncIterator[str]:
    name = await asyncio.to_thread(server.new_database, "template0", options)
    yield server.url_of(name)


# At the start.


async def test_a_server_that_is_not_there_is_named() -> None:
    assert "onnection refused" in await refusal(f"postgresql://127.0.0.1:{free_port()}/x")


async def test_a_database_that_is_not_there_is_named(server: Postgres) -> None:
    assert 'database "nowhere" does not exist' in await refusal(server.url_of("nowhere"))


@pytest.mark.parametrize("url", ["postgresql://h:port/x", "host=h colour=red", "host='h"])
async def test_what_libpq_cannot_read_is_refused(url: str) -> None:
    assert (await refusal(url)).startswith("database.url: ")


async def test_a_wrong_password_is_told_and_not_shown(own: Postgres) -> None:
    rules = own.folder / "data" / "pg_hba.conf"
    own.run("CREATE ROLE guest LOGIN PASSWORD 'right-secret'")
    rules.write_text("host all guest 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    own.run("SELECT pg_reload_conf()")
    url = f"postgresql://guest:wrong-secret@127.0.0.1:{own.port}/postgres"
    said = await refusal(url)
    assert 'password authentication failed for user "guest"' in said
    assert "secret" not in said


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_must_be_utf8(server: Postgres, encoding: str) -> None:
    options = f"ENCODING {encoding} LC_COLLATE 'C' LC_CTYPE 'C'"
    async with database(server, options) as url:
        assert f"encoded as {encoding}, and must be UTF8" in await refusal(url)


async def test_a_server_that_is_too_old_is_refused(server: Postgres) -> None:
    """As far as the database tells: a function of its own says that it is version 14."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    server.run(
        "CREATE SCHEMA old; CREATE FUNCTION old.current_setting(setting text) RETURNS text LANGUAGE"
        " sql AS $$ SELECT CASE setting WHEN 'server_version_num' THEN '140012'"
        " ELSE pg_catalog.current_setting(setting) END $$;"
        f"ALTER DATABASE {name} SET search_path = old, pg_catalog, public",
        name,
    )
    assert "PostgreSQL 14 is too old: 15 or later is needed" in await refusal(url)


async def test_a_user_must_be_allowed_to_make_tables(server: Postgres) -> None:
    async with database(server, "") as url:
        name = url.rpartition("/")[2]
        server.run(f"CREATE ROLE poor_{name} LOGIN", name)
        with pytest.raises((WrongSettings, StorageUnavailable)):
            async with ledger_at(server.url_of(name, f"poor_{name}")):
                pass


async def test_any_time_zone_and_style_of_dates_will_do(server: Postgres) -> None:
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    for setting in ("timezone = 'Pacific/Kiritimati'", "datestyle = 'German'"):
        server.run(f"ALTER DATABASE {name} SET {setting}")
    server.run(f"ALTER DATABASE {name} SET standard_conforming_strings = off")
    async with ledger_at(url) as ledger:
        (pin,) = await add(ledger, 1)
        status = await ledger.pins.status("anna", cid(1))
    assert status is not None
    assert status.pin == pin


async def test_a_read_only_standby_is_refused(server: Postgres) -> None:
    """With what to say in the URL, so that libpq finds the primary."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "target_session_attrs=read-write" in await refusal(url)


async def test_the_first_of_several_hosts_that_is_there_is_taken(server: Postgres) -> None:
    name = server.new_ledger().rpartition("/")[2]
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{server.port}"
    url = f"postgresql://{postgres.USER}@{hosts}/{name}?target_session_attrs=read-write"
    async with ledger_at(url) as ledger:
        assert await add(ledger, 1)


async def test_what_the_server_does_not_sync_is_synced(server: Postgres) -> None:
    """Where somebody has set synchronous_commit = off, our commits wait all the same."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    async with ledger_at(url) as ledger:
        rows = await ledger.database.ask("SELECT current_setting('synchronous_commit')")
    assert rows == [("on",)]


# Versions.


async def test_a_newer_schema_is_refused(server: Postgres) -> None:
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    server.run("UPDATE ledger_schema SET version = 99, least = 98", name)
    assert "newer version" in await refusal(url)


async def test_a_newer_schema_that_older_programs_know_will_do(server: Postgres) -> None:
    """During an upgrade two versions run side by side."""
    url = server.new_ledger()
    server.run("UPDATE ledger_schema SET version = 99", url.rpartition("/")[2])
    async with ledger_at(url) as ledger:
        assert await add(ledger, 1)


async def test_an_older_schema_waits_for_the_upgrade(server: Postgres) -> None:
    """A service does not change it: others of the older version may run."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    server.run("UPDATE ledger_schema SET version = 0, least = 0", name)
    server.run("DROP TABLE ledger_schema", name)
    server.run("CREATE TABLE ledger_schema (one bool, version int, least int)", name)
    server.run("INSERT INTO ledger_schema VALUES (true, -1, -1)", name)
    assert "content-gateway ledger upgrade" in await refusal(url)


async def test_many_may_begin_an_empty_database(server: Postgres) -> None:
    """One of them makes the tables, the others wait for that."""
    async with database(server, "") as url:
        ledgers = [ledger_at(url) for _ in range(6)]
        await asyncio.gather(*(ledger.__aenter__() for ledger in ledgers))
        await asyncio.gather(*(add(ledger, n) for n, ledger in enumerate(ledgers)))
        await asyncio.gather(*(ledger.__aexit__() for ledger in ledgers))


# Later.


async def test_a_server_that_dies_loses_nothing(own: Postgres) -> None:
    """Killed in the middle of a stream of pins and started again: each acknowledged pin is there,
    and the next ones are taken without a restart of ours."""
    acknowledged: list[int] = []
    stopped = False
    async with ledger_at(own.new_ledger()) as ledger:

        async def stream(first: int) -> None:
            for number in range(first, 100_000, 16):
                if stopped:
                    return
                try:
                    await add(ledger, number)
                except StorageUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    acknowledged.append(number)

        streams = [asyncio.create_task(stream(first)) for first in range(16)]
        await eventually(lambda: _soon(len(acknowledged) > 200))
        await asyncio.to_thread(own.stop)
        before = len(acknowledged)
        (own.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        await asyncio.to_thread(own.start)
        await eventually(lambda: _soon(len(acknowledged) > before + 200))
        stopped = True
        await asyncio.gather(*streams)
        for number in acknowledged:
            assert await ledger.pins.holds("anna", cid(number)), number


async def _soon(is_so: bool) -> bool:
    return is_so


async def test_a_network_that_drops_packets_costs_a_deadline(server: Postgres) -> None:
    """Who waits is refused in time, who comes later at once; when it is mended all goes on."""
    name = server.new_ledger().rpartition("/")[2]
    loop = asyncio.get_running_loop()
    async with linked(server.port) as link:
        url = f"postgresql://{postgres.USER}@127.0.0.1:{link.port}/{name}?connect_timeout=2"
        async with ledger_at(url, seconds=1.0) as ledger:
            await add(ledger, *range(5))
            link.drop()
            for number in range(5, 8):
                begun = loop.time()
                with pytest.raises(StorageUnavailable):
                    await add(ledger, number)
                assert loop.time() - begun < 30
            with pytest.raises(StorageUnavailable):
                await ledger.pins.status("anna", cid(1))
            link.mend()

            async def is_back() -> bool:
                try:
                    await add(ledger, 100)
                except StorageUnavailable:
                    return False
                return True

            await eventually(is_back, seconds=60)
            for number in (*range(5), 100):
                assert await ledger.pins.holds("anna", cid(number))


async def test_connections_that_run_out_are_waited_for(server: Postgres) -> None:
    """As many as the role may have are taken: refused, in words at the start; and later everybody
    waits for those that there are, and a pin is taken once there is one again."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    role = f"few_{name}"
    server.run(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0", name)
    assert "too many connections" in await refusal(server.url_of(name, role))
    server.run(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", name)
    server.run(f"ALTER ROLE {role} CONNECTION LIMIT 1", name)
    async with ledger_at(server.url_of(name, role)) as ledger:
        with capture_logs() as logs:
            asked = (ledger.database.ask("SELECT 1 FROM pg_sleep(0.02)") for _ in range(20))
            assert await asyncio.gather(*asked) == [[(1,)]] * 20
        assert "no more connections can be opened" in [line["event"] for line in logs]
        server.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
        )
        server.run(f"ALTER ROLE {role} CONNECTION LIMIT 0", name)

        async def is_taken() -> bool:
            try:
                await add(ledger, 1)
            except StorageUnavailable:
                return False
            return True

        assert not await is_taken()
        server.run(f"ALTER ROLE {role} CONNECTION LIMIT 2", name)
        await eventually(is_taken)


async def test_a_server_that_becomes_read_only_is_left(server: Postgres) -> None:
    """As at a failover: refused while it is so, and connected anew afterwards."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    async with ledger_at(url) as ledger:
        await add(ledger, 1)
        server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname='{name}'")

        async def is_refused() -> bool:
            try:
                await add(ledger, 2)
            except StorageUnavailable:
                return True
            return False

        await eventually(is_refused)
        server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = off")

        async def is_taken() -> bool:
            return not await is_refused()

        await eventually(is_taken)


async def test_a_statement_that_waits_too_long_is_given_up(server: Postgres) -> None:
    """Somebody holds a lock: who waits is refused, and nothing of it is kept."""
    url = server.new_ledger()
    async with ledger_at(url, seconds=1.0) as ledger:
        await add(ledger, 1)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE pins IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StorageUnavailable):
                await add(ledger, 2)
        assert not await ledger.pins.holds("anna", cid(2))
        assert await add(ledger, 2) != [None]


async def test_who_waits_for_a_connection_is_counted(server: Postgres) -> None:
    """As many as there may be are in use while somebody holds a lock, and the others wait."""
    url = server.new_ledger()
    async with ledger_at(url, seconds=20.0, connections=2) as ledger:
        await add(ledger, 1)
        assert (ledger.pool.limit, ledger.pool.in_use, ledger.pool.waiting) == (2, 0, 0)
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE pins IN ACCESS EXCLUSIVE MODE")
            more = [
                asyncio.create_task(ledger.database.ask("SELECT count(*) FROM pins"))
                for _ in range(6)
            ]
            await eventually(lambda: _soon(ledger.pool.waiting == 4))
            assert ledger.pool.in_use == 2
        assert await asyncio.gather(*more) == [[(1,)]] * 6
        assert (ledger.pool.in_use, ledger.pool.waiting) == (0, 0)


async def test_what_another_process_makes_due_is_heard(server: Postgres) -> None:
    """NOTIFY wakes whoever reconciles; and it listens again after its connection broke."""
    url = server.new_ledger()
    name = url.rpartition("/")[2]
    heard = asyncio.Event()
    async with ledger_at(url) as one, ledger_at(url) as other:
        other.listen(heard.set)
        await asyncio.wait_for(heard.wait(), 20)  # once it listens
        for number in range(2):
            heard.clear()
            await add(one, number)
            await asyncio.wait_for(heard.wait(), 20)
            heard.clear()
            server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname='{name}' AND query LIKE 'LISTEN%'"
            )
            await asyncio.wait_for(heard.wait(), 20)
