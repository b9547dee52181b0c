"""The WAL: checkpointed into the file beside the writer, and restarted."""

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.sqlite import checkpointer
from content_gateway.sqlite.checkpointer import Checkpointer
from tests.waiting import until


def in_the_file(path: Path) -> int:
    """How many pins the file holds without its log."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM pins").fetchone()[0])
        except sqlite3.DatabaseError:
            return -1  # it is being written


async def add(database: LedgerDatabase, content: int, size: int = 0) -> None:
    row = ("anna", content, content, "x" * size)
    await database.write(
        lambda connection: connection.execute(
            "INSERT INTO pins (requestor, content, created_at, name) VALUES (?, ?, ?, ?)", row
        )
    )


def beginning_of_log(path: Path) -> bytes:
    """What is another one each time that the log begins again: its salts."""
    with path.with_name(path.name + "-wal").open("rb") as log:
        return log.read(24)[16:]


def folder_of(database: LedgerDatabase) -> str:
    return repr(vars(database)["_checkpointer"])


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who has checkpointed, in order."""
    who: list[str] = []
    checkpoint = Checkpointer._checkpoint

    def noted(self: Checkpointer) -> None:
        who.append(repr(self))
        checkpoint(self)

    monkeypatch.setattr(Checkpointer, "_checkpoint", noted)
    return who


async def test_what_was_written_reaches_the_file(tmp_path: Path) -> None:
    """Soon, and again after a pause, while the database stays open."""
    path = tmp_path / "ledger.sqlite"
    async with LedgerDatabase(path) as database:
        for number in (1, 2):
            await add(database, number)
            await until(lambda: in_the_file(path) == number)  # noqa: B023 - awaited at once


async def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Forty megabytes, with pauses in which all is checkpointed, fit into a much shorter log."""
    path = tmp_path / "ledger.sqlite"
    log = path.with_name(path.name + "-wal")
    async with LedgerDatabase(path) as database:
        for number in range(8):
            await add(database, number, 5_000_000)
            await until(lambda: in_the_file(path) == number + 1)  # noqa: B023
            await asyncio.sleep(0.2)  # it is there a moment before it is synced
            assert log.stat().st_size < 20_000_000


async def test_without_pauses_a_long_wal_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where new writes always arrive before the old ones are checkpointed, writers are held for a
    moment."""
    monkeypatch.setattr(checkpointer, "MAX_WAL_PAGES", 500)
    path = tmp_path / "ledger.sqlite"
    async with LedgerDatabase(path) as database:
        await add(database, 0)
        before = beginning_of_log(path)
        for number in range(1, 50_000):
            await asyncio.gather(*(add(database, 10 * number + each, 5_000) for each in range(10)))
            if beginning_of_log(path) != before:
                break
        else:
            pytest.fail("the WAL did not restart")


async def test_what_is_checkpointed_is_not_checkpointed_again(
    checkpoints: list[str], tmp_path: Path
) -> None:
    """Neither where nothing was written since, nor where a write has changed nothing."""
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        await add(database, 1)
        await until(lambda: checkpoints)
        await asyncio.sleep(1.2)
        del checkpoints[:]
        for _ in range(5):
            await database.write(
                lambda connection: connection.execute("DELETE FROM pins WHERE content = 9")
            )
            await database.search(lambda connection: connection.execute("SELECT * FROM pins"))
            await asyncio.sleep(0.3)
        assert not checkpoints
        await add(database, 2)
        await until(lambda: checkpoints)


async def test_one_process_checkpoints_for_all(checkpoints: list[str], tmp_path: Path) -> None:
    """The first process checkpoints what the second writes; when the first is gone, the second does
    it."""
    path = tmp_path / "ledger.sqlite"
    async with AsyncExitStack() as stack:
        async with LedgerDatabase(path) as first:
            second = await stack.enter_async_context(LedgerDatabase(path))
            await add(second, 1)
            await until(lambda: in_the_file(path) == 1)
            assert checkpoints == [folder_of(first)]
        await asyncio.sleep(2.5)  # it has seen that nobody checkpoints
        await add(second, 2)
        await until(lambda: in_the_file(path) == 2)
        assert checkpoints[-1] == folder_of(second)


async def test_a_disk_that_refuses_is_told_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on, and what was written meanwhile is checkpointed when the disk is well."""
    asked = threading.Event()

    def broken(self: Checkpointer) -> None:
        asked.set()
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as sick, capture_logs() as logs:
        sick.setattr(Checkpointer, "_checkpoint", broken)
        path = tmp_path / "ledger.sqlite"
        async with LedgerDatabase(path) as database:
            for number in (1, 2):
                asked.clear()
                await add(database, number)
                assert await asyncio.to_thread(asked.wait, 10)
            sick.undo()
            await add(database, 3)
            await until(lambda: in_the_file(path) == 3)
    assert {line["reason"] for line in logs} == {"disk I/O error"}


async def test_it_ends_at_once(tmp_path: Path) -> None:
    for writes in (0, 1):
        async with LedgerDatabase(tmp_path / f"{writes}.sqlite") as database:
            for number in range(writes):
                await add(database, number)
    assert not [each for each in threading.enumerate() if "checkpointer" in each.name]
