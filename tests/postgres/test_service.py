"""The running command before a PostgreSQL that has no connection left, is not heard for a minute,
or has no room for its WAL.

Who pins is refused with 503, `/version` is answered meanwhile, whatever was acknowledged is there,
and the service goes on without a restart. What a ledger alone makes of such a server, and of one
that is wrong from the start, is in test_troubles.py."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count, islice
from pathlib import Path

import aiohttp
import psycopg
import pytest

from tests.cli.command import run
from tests.faults.asking import ask, ask_all, session
from tests.faults.ground import NOBODY, OPEN
from tests.faults.ledger_rows import PostgresRows
from tests.ledgers import cid
from tests.postgres.toxic import linked
from tests.process import Running, running
from tests.sqlite.test_mounted import mount, unmount
from tests.waiting import eventually
from tests.world import postgres
from tests.world.postgres import Postgres

VERSION = "15"
DROPPED = 60.0  # seconds
WAL_MEGABYTES = 96  # three segments of 16, and what fills the rest
ENDED = "nobody hears notifications now"  # said once the connections of the service were ended
TIMEOUT = {"CONTENT_GATEWAY_DATABASE__TIMEOUT": "2"}


class Pinning:
    """Somebody who pins one new content after the other with *client*, and remembers which were
    acknowledged."""

    def __init__(self, service: Running, client: aiohttp.ClientSession) -> None:
        self.log = service.log
        self._url, self._client = service.url, client
        self._numbers = count()
        self._acknowledged: set[str] = set()

    async def add(self, number: int) -> Counter[int]:
        """The statuses of so many."""
        cids = [str(cid(each)) for each in islice(self._numbers, number)]
        urls = [f"{self._url}/ipfs/pin/add/{one}" for one in cids]
        answers = await ask_all(self._client, "POST", urls, at_once=8)
        found = zip(cids, answers, strict=True)
        self._acknowledged |= {one for one, answer in found if answer.status == 200}
        return Counter(answer.status for answer in answers)

    async def is_taken(self) -> bool:
        """Whether one more is."""
        return await self.add(1) == {200: 1}

    async def is_alive(self) -> bool:
        """Whether `/version` is answered."""
        return (await ask(self._client, "GET", f"{self._url}/version")).status == 200

    def check(self, server: Postgres, database: str) -> None:
        """Fails where something that was acknowledged is not in *database*."""
        kept = {one for _, one in PostgresRows(server, database).pins()}
        assert self._acknowledged <= kept


@asynccontextmanager
async def pinning(folder: Path, url: str) -> AsyncIterator[Pinning]:
    """A client of a service whose ledger is at *url*; twenty of its pins are acknowledged."""
    settings = {**OPEN, **NOBODY, **TIMEOUT, "CONTENT_GATEWAY_DATABASE__URL": url}
    async with running("serve", folder / "data", settings) as service, session() as client:
        mine = Pinning(service, client)
        assert await mine.add(20) == {200: 20}
        yield mine


class Hog:
    """Another client of *server*, which takes all the connections that are left."""

    def __init__(self, server: Postgres, stack: ExitStack) -> None:
        self._url, self._stack = server.url, stack
        self._first = self._connect()

    def _connect(self) -> psycopg.Connection:
        return self._stack.enter_context(psycopg.connect(self._url, autocommit=True))

    def take(self) -> None:
        """Take what is left."""
        while True:
            try:
                self._connect()
            except psycopg.OperationalError as full:
                if "too many clients" in str(full):
                    return
                raise

    def end_others(self) -> None:
        """End the connections of the service, and take them."""
        self._first.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'content-gateway'"
        )
        self.take()


@pytest.fixture
def few() -> Iterator[Postgres]:
    """A server with few connections."""
    with postgres.durable(VERSION, max_connections="20") as server:
        yield server


def test_a_service_that_finds_no_connection_says_so(tmp_path: Path, few: Postgres) -> None:
    """At its start; the reason is PostgreSQL's own."""
    settings = {"DATABASE__URL": few.new_ledger(), "PINS__BACKEND": "ipfs-cluster"}
    settings["IPFS_CLUSTER__URLS"] = '["http://127.0.0.1:9"]'
    with ExitStack() as stack:
        Hog(few, stack).take()
        refused = run(tmp_path, "serve", **settings)
    assert refused.returncode == 2
    assert "too many clients" in refused.stderr


async def test_connections_that_others_have_are_waited_for(tmp_path: Path, few: Postgres) -> None:
    """max_connections is reached. With the connections that it has the service goes on and refuses
    nobody; without any it refuses, and then goes on by itself."""
    url = few.new_ledger()
    async with pinning(tmp_path, url) as mine:
        with ExitStack() as stack:
            hog = await asyncio.to_thread(Hog, few, stack)
            await asyncio.to_thread(hog.take)
            assert await mine.add(200) == {200: 200}

            async def are_all_refused() -> bool:
                await asyncio.to_thread(hog.end_others)
                statuses, log = await mine.add(8), mine.log.read_text()
                return statuses == {503: 8} and "too many clients" in log.partition(ENDED)[2]

            await eventually(are_all_refused)
            assert await mine.is_alive()
        await eventually(mine.is_taken)
        assert await mine.add(50) == {200: 50}
    mine.check(few, url.rpartition("/")[2])


@pytest.mark.deep
@pytest.mark.timeout(400)
async def test_a_minute_without_packets_is_a_minute_of_503(tmp_path: Path) -> None:
    """Connections stay open, and nothing comes through. Everybody is answered all the same."""
    server = postgres.shared(VERSION)
    name = server.new_ledger().rpartition("/")[2]
    loop = asyncio.get_running_loop()
    async with linked(server.port) as link:
        url = f"postgresql://{postgres.USER}@127.0.0.1:{link.port}/{name}"
        async with pinning(tmp_path, url) as mine:
            link.drop()
            end, statuses = loop.time() + DROPPED, Counter[int]()
            while loop.time() < end:
                statuses += await mine.add(8)
                assert await mine.is_alive()
                await asyncio.sleep(0.1)
            assert set(statuses) == {503}
            link.mend()
            await eventually(mine.is_taken)
            assert await mine.add(50) == {200: 50}
    mine.check(server, name)


@pytest.fixture
def wal(tmp_path: Path) -> Iterator[Path]:
    """A small file system, to be the one of the WAL."""
    folder = tmp_path / "wal"
    folder.mkdir()
    size = f"size={WAL_MEGABYTES}m"
    if os.getuid() or not mount("-t", "tmpfs", "-o", size, "tmpfs", folder):
        pytest.skip("nothing can be mounted here")
    yield folder
    unmount("--lazy", folder)


def move_wal(server: Postgres, folder: Path) -> None:
    """Have the WAL in *folder*, as `initdb --waldir` does."""
    server.shut_down()
    place = server.folder / "data" / "pg_wal"
    shutil.move(place, folder / "pg_wal")
    place.symlink_to(folder / "pg_wal")
    server.start()


def fill(path: Path) -> None:
    """Leave no room where *path* is."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            return


@pytest.mark.deep
@pytest.mark.timeout(300)
async def test_a_full_disk_of_the_wal_loses_no_pin(tmp_path: Path, wal: Path) -> None:
    """PostgreSQL ends for want of it (PANIC), and again at each of its starts. Once there is room,
    its service manager has it started; ours goes on without that."""
    sizes = {"min_wal_size": "32MB", "max_wal_size": "48MB"}
    with postgres.durable(VERSION, **sizes) as server:
        await asyncio.to_thread(move_wal, server, wal)
        url = server.new_ledger()
        async with pinning(tmp_path, url) as mine:
            await asyncio.to_thread(fill, wal / "filling")
            statuses = Counter[int]()

            async def is_refused() -> bool:
                nonlocal statuses
                with suppress(psycopg.Error):
                    await asyncio.to_thread(server.run, "SELECT pg_switch_wal()")
                found = await mine.add(20)
                statuses += found
                return set(found) == {503}

            await eventually(is_refused)
            assert set(statuses) <= {200, 503}
            assert await mine.is_alive()
            assert "No space left on device" in (server.folder / "log").read_text()
            (wal / "filling").unlink()

            async def is_served_again() -> bool:
                if not server.is_running:
                    await asyncio.to_thread(server.start)
                return await mine.is_taken()

            await eventually(is_served_again)
            assert await mine.add(50) == {200: 50}
        await asyncio.to_thread(mine.check, server, url.rpartition("/")[2])
