"""The log of writes: folded into the file beside the writer, and begun anew."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from content_gateway.storage import sqlite
from content_gateway.storage.folding import Folding
from content_gateway.storage.sqlite import Database
from tests.waiting import until


def in_the_file(path: Path) -> int:
    """How many pins the file holds without its log."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM pins").fetchone()[0])
        except sqlite3.DatabaseError:
            return -1  # it is being written


async def add(database: Database, content: int, size: int = 0) -> None:
    row = ("anna", content, content, "x" * size)
    await database.write(
        lambda connection: connection.execute(
            "INSERT INTO pins (requestor, content, created_at, name) VALUES (?, ?, ?, ?)", row
        )
    )


async def test_what_was_written_reaches_the_file(tmp_path: Path) -> None:
    """Soon, and again after a pause, while the database stays open."""
    path = tmp_path / "ledger.sqlite"
    async with Database(path) as database:
        for number in (1, 2):
            await add(database, number)
            await until(lambda: in_the_file(path) == number)  # noqa: B023 - awaited at once


async def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    """A hundred megabytes, with pauses in which all is folded, fit into a much shorter log."""
    path = tmp_path / "ledger.sqlite"
    log = path.with_name(path.name + "-wal")
    async with Database(path) as database:
        for number in range(100):
            await add(database, number, 1_000_000)
            await until(lambda: in_the_file(path) == number + 1)  # noqa: B023
            await asyncio.sleep(0.01)  # it is there a moment before it is synced
            assert log.stat().st_size < 20_000_000


async def test_without_pauses_a_commit_ends_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something new is always there before the old is folded, and nobody folds at all."""
    monkeypatch.setattr(sqlite, "_LONGEST_LOG_PAGES", 500)
    monkeypatch.setattr(Folding, "_run", lambda self: None)
    path = tmp_path / "ledger.sqlite"
    log = path.with_name(path.name + "-wal")
    async with Database(path) as database:
        for number in range(100):
            await add(database, number, 100_000)
            assert log.stat().st_size < 3_000_000


async def test_a_disk_that_refuses_is_told_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on, and what was written meanwhile is folded when the disk is well."""
    folding = Folding(tmp_path / "ledger.sqlite")
    asked = threading.Event()

    class Sick:
        def execute(self, statement: str) -> None:
            asked.set()
            raise sqlite3.OperationalError("disk I/O error")

        def close(self) -> None:
            pass

    monkeypatch.setattr("content_gateway.storage.folding.connect", lambda path, busy: Sick())
    with capture_logs() as logs:
        folding.start()
        for _ in range(2):
            asked.clear()
            folding.written()
            assert await asyncio.to_thread(asked.wait, 10)
        await asyncio.to_thread(folding.close)
    assert [line["reason"] for line in logs] == ["disk I/O error"] * 2


async def test_it_ends_at_once(tmp_path: Path) -> None:
    """Whether it has ever had something to do, or not."""
    for writes in (0, 1):
        async with Database(tmp_path / f"{writes}.sqlite") as database:
            for number in range(writes):
                await add(database, number)
    assert not [each for each in threading.enumerate() if "folding" in each.name]
