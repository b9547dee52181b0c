"""Both kinds of SQLite file: what is acknowledged is durable, what fails leaves nothing."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from content_gateway.backends.embedded.database import BLOCKS
from content_gateway.errors import Overloaded, StorageUnavailable, WrongSettings
from content_gateway.ledger.sqlite.database import LEDGER
from content_gateway.sqlite.database import Database, DatabaseOptions


@pytest.fixture(params=[LEDGER, BLOCKS], ids=["ledger", "blocks"])
def options(request: pytest.FixtureRequest) -> DatabaseOptions:
    """Each kind of file; none waits long for a lock here."""
    options: DatabaseOptions = request.param
    return replace(options, busy_ms=500)


@pytest.fixture
async def database(tmp_path: Path, options: DatabaseOptions) -> AsyncIterator[Database]:
    async with Database(tmp_path / "file.sqlite", options) as database:
        await database.write(lambda c: c.execute("CREATE TABLE numbers (n INTEGER UNIQUE)"))
        yield database


async def count(database: Database) -> int:
    rows = await database.write(lambda c: c.execute("SELECT count(*) FROM numbers").fetchone())
    return int(rows[0])


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    return lambda c: c.execute("INSERT INTO numbers VALUES (?)", (number,)).rowcount


async def test_writes_of_many_callers_are_all_kept(database: Database) -> None:
    """A thousand concurrent writes are all there, and each caller has its own result."""
    results = await asyncio.gather(*(database.write(insert(n)) for n in range(1000)))
    assert results == [1] * 1000
    assert await count(database) == 1000


async def test_one_failure_in_a_group_harms_nobody_else(database: Database) -> None:
    """A write that fails is refused alone; the others of its group are committed."""
    writes = [database.write(insert(n)) for n in (1, 2, 2, 3)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [int, int, StorageUnavailable, int]
    assert await count(database) == 3


async def test_a_bug_in_a_job_is_not_called_an_outage(database: Database) -> None:
    """An error that is not the database's reaches the caller as itself, and changes nothing."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES (7)")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(job)
    assert await count(database) == 0


async def test_a_locked_database_is_unavailable_and_recovers(
    database: Database, tmp_path: Path
) -> None:
    """While another process holds the write lock a write waits, then fails; later ones succeed."""
    other = sqlite3.connect(tmp_path / "file.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writes = [database.write(insert(n)) for n in range(100)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(result) for result in results} == {StorageUnavailable}
    other.execute("ROLLBACK")
    other.close()
    assert await database.write(insert(1)) == 1


async def test_a_full_disk_is_unavailable_and_recovers(database: Database) -> None:
    """When no page can be added the write is refused with nothing kept, and works again later."""

    def pages(limit: int) -> Callable[[sqlite3.Connection], int]:
        return lambda c: c.execute(f"PRAGMA max_page_count = {limit}").fetchone()[0]

    size = await database.write(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await database.write(pages(size))
    with pytest.raises(StorageUnavailable):
        await database.write(
            lambda c: c.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(10_000)))
        )
    assert await count(database) == 0
    await database.write(pages(1_000_000))
    assert await database.write(insert(1)) == 1


async def test_the_settings_that_make_it_durable_are_on(database: Database) -> None:
    """WAL and synchronous=FULL: a commit is on disk before it is answered."""
    mode = await database.write(lambda c: c.execute("PRAGMA journal_mode").fetchone()[0])
    level = await database.write(lambda c: c.execute("PRAGMA synchronous").fetchone()[0])
    assert (mode, level) == ("wal", 2)


async def test_a_waiting_caller_does_not_stop_the_loop(database: Database) -> None:
    goes_on = threading.Event()
    slow = asyncio.create_task(database.write(lambda _: goes_on.wait(60)))
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert not slow.done()
    goes_on.set()
    assert await slow


async def test_a_queue_that_is_full_refuses(tmp_path: Path, options: DatabaseOptions) -> None:
    """More waiting writes than the limit are refused at once instead of piling up."""
    async with Database(tmp_path / "file.sqlite", options) as database:
        begun, goes_on = threading.Event(), threading.Event()

        def block(_: sqlite3.Connection) -> None:
            begun.set()
            goes_on.wait(30)

        blocked = asyncio.create_task(database.write(block))
        await asyncio.to_thread(begun.wait, 30)
        most = options.max_queued + options.max_group
        writes = [add(database, "flood") for _ in range(most + 50)]
        await asyncio.sleep(0)  # all of them have been queued or refused
        others = [add(database, requestor) for requestor in ("other", "")]
        await asyncio.sleep(0)
        goes_on.set()
        results = await asyncio.gather(*writes, return_exceptions=True)
        refused = [result for result in results if isinstance(result, Overloaded)]
        assert len(refused) == 51  # as the blocked one is somebody else's
        assert await asyncio.gather(*others) == [1, 1]
        await blocked


def add(database: Database, requestor: str) -> asyncio.Task[int]:
    return asyncio.create_task(database.write(lambda _: 1, requestor=requestor))


@pytest.mark.parametrize("place", ["garbage/file.sqlite", "garbage", "folder"])
async def test_a_place_that_cannot_be_used_is_a_wrong_setting(
    tmp_path: Path, options: DatabaseOptions, place: str
) -> None:
    """A data directory below a file, a file that is not SQLite's, a folder: each stops the start,
    which names it."""
    (tmp_path / "garbage").write_text("certainly not SQLite" * 100)
    (tmp_path / "folder").mkdir()
    with pytest.raises(WrongSettings, match=f"data_dir: .*{place}"):
        async with Database(tmp_path / place, options):
            pass


async def test_what_another_process_holds_is_no_wrong_setting(
    tmp_path: Path, options: DatabaseOptions
) -> None:
    """A file that somebody else migrates at that moment: the start fails as one that may be tried
    again."""
    with closing(sqlite3.connect(tmp_path / "file.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageUnavailable, match=r"cannot be used now: .*locked"):
            async with Database(tmp_path / "file.sqlite", replace(options, busy_ms=50)):
                pass


async def test_a_ledger_of_a_newer_version_is_left_alone(
    tmp_path: Path, options: DatabaseOptions
) -> None:
    """A file that a later version has migrated is refused, not guessed at."""
    path = tmp_path / "file.sqlite"
    async with Database(path, options) as database:
        await database.write(lambda c: c.execute("PRAGMA user_version = 99"))
    with pytest.raises(WrongSettings, match="newer"):
        async with Database(path, options):
            pass


def test_several_may_make_it_at_once(tmp_path: Path, options: DatabaseOptions) -> None:
    """Whoever is first on an empty folder makes the tables, and the others wait for it."""
    options = replace(options, busy_ms=60_000)  # the disk may be busy with other tests

    async def opened(path: Path, start: threading.Barrier) -> None:
        start.wait()
        async with Database(path, options) as database:
            await database.write(lambda c: c.execute("SELECT * FROM pins").fetchall())

    for turn in range(15):
        start, path = threading.Barrier(4), tmp_path / str(turn) / "file.sqlite"
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(asyncio.run, opened(path, start)) for _ in range(4)]:
                done.result()
