"""Searches of the ledger: in turn, of one moment, and out of the way of what is written."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from content_gateway.errors import Overloaded, StorageUnavailable
from content_gateway.ledger.sqlite.database import LEDGER, LedgerDatabase
from content_gateway.sqlite.database_files import DatabaseFiles
from content_gateway.sqlite.searches import MAX_WAITING_SEARCHES, Searches


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        await database.write(lambda c: c.execute("CREATE TABLE numbers (number INTEGER)"))
        yield database


@contextmanager
def searches(folder: Path, max_wal_bytes: int) -> Iterator[Searches]:
    """Those of the database in *folder*, which is open."""
    path = folder / "ledger.sqlite"
    files = DatabaseFiles(path, "ledger")
    files.opened()
    made = Searches(path, LEDGER.file, files, max_wal_bytes)
    try:
        yield made
    finally:
        made.close()
        files.close()


async def test_searches_are_taken_in_turn(database: LedgerDatabase) -> None:
    """While one requestor's searches hold their threads another's are run; above its limit a
    requestor gets Overloaded."""
    goes_on = threading.Event()

    def held(_: sqlite3.Connection) -> bool:
        return goes_on.wait(60)

    def search(requestor: str, job: Callable[[sqlite3.Connection], bool]) -> asyncio.Task[bool]:
        return asyncio.create_task(database.search(job, requestor=requestor))

    flood = [search("hog", held) for _ in range(100)]
    for _ in range(20):  # one after the other, while the flood holds all that it may
        assert await search("quiet", lambda _: True)
    assert not any(task.done() and task.exception() is None for task in flood)
    goes_on.set()
    results = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(result) for result in results} == {bool, Overloaded}
    assert results.count(True) == 2 + 2 * MAX_WAITING_SEARCHES // 3


async def test_a_search_that_nobody_waits_for_keeps_its_place(database: LedgerDatabase) -> None:
    """Its thread goes on; others wait until that has ended, and not in the thread's queue."""
    goes_on = threading.Event()
    begun = [threading.Event(), threading.Event()]

    def held(number: int) -> Callable[[sqlite3.Connection], None]:
        def job(_: sqlite3.Connection) -> None:
            begun[number].set()
            goes_on.wait(60)

        return job

    given_up = [
        asyncio.create_task(database.search(held(number), requestor="hog")) for number in (0, 1)
    ]
    for event in begun:
        await asyncio.to_thread(event.wait, 60)
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    ran: list[bool] = []
    waiting = asyncio.create_task(
        database.search(lambda _: ran.append(goes_on.is_set()), requestor="hog")
    )
    for _ in range(10):  # time to run, if it could
        await asyncio.to_thread(lambda: None)
    goes_on.set()
    await waiting
    assert ran == [True]


async def test_where_the_log_is_long_they_wait_for_each_other(
    tmp_path: Path, database: LedgerDatabase
) -> None:
    """Where the WAL is long, searches run one after the other, so that it can be checkpointed in
    between. The service's own searches do not wait."""
    at_once: list[int] = []
    most = 0
    lock = threading.Lock()

    def job(_: sqlite3.Connection) -> None:
        nonlocal most
        with lock:
            at_once.append(1)
            most = max(most, len(at_once))
        threading.Event().wait(0.02)
        with lock:
            at_once.pop()

    with searches(tmp_path, 0) as long:
        await asyncio.gather(*(long.run(job, requestor=f"key {n}") for n in range(12)))
        assert most == 1
        goes_on = threading.Event()
        held = asyncio.create_task(long.run(lambda _: goes_on.wait(60), requestor="hog"))
        assert await long.run(lambda _: 7, is_ours=True) == 7
        with pytest.raises(StorageUnavailable, match="catching up"):
            await long.run(lambda _: 8, seconds=0.05, requestor="late")
        goes_on.set()
        assert await held
        assert await long.run(lambda _: 8, requestor="late") == 8
    with searches(tmp_path, 10**9) as short:
        await asyncio.gather(*(short.run(job, requestor=f"key {n}") for n in range(12)))
        assert most > 1


async def test_each_reads_of_one_moment_and_the_next_of_a_later_one(
    tmp_path: Path, database: LedgerDatabase
) -> None:
    """Each reads one snapshot, also on a connection that is kept; a connection whose search has
    failed is not kept."""

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM numbers").fetchone()[0])

    begun, goes_on = threading.Event(), threading.Event()

    def twice(connection: sqlite3.Connection) -> tuple[int, int]:
        first = count(connection)
        begun.set()
        goes_on.wait(60)
        return first, count(connection)

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT nothing FROM numbers")

    with searches(tmp_path, 10**9) as made:
        assert await made.run(count) == 0
        for _ in range(3):
            with pytest.raises(StorageUnavailable):
                await made.run(broken)
        reading = asyncio.create_task(made.run(twice))
        await asyncio.to_thread(begun.wait, 60)
        await database.write(lambda c: c.execute("INSERT INTO numbers VALUES (1)"))
        goes_on.set()
        assert await reading == (0, 0)
        assert await made.run(count) == 1
