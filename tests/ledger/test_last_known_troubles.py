"""Last known answers when the database fails: nothing is raised, memory is bounded, and writing
goes on afterwards."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from content_gateway.ledger.last_known import StoreLimits
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.last_known import SqliteLastKnown
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import Resolved, StoredEntry
from content_gateway.model.wallet import ETHEREUM
from tests.ledger.answers import ALICE, AT, BOB, EAGER, opened, wait_for_rows
from tests.waiting import until

LAZY = StoreLimits(flush_seconds=3600.0)
DOMAIN = IpnsName.parse("app.uniswap.org")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def until_logged(logs: list[Any], event: str) -> None:
    """Wait until *event* is in the log; fails when that takes too long."""
    await until(lambda: event in [entry["event"] for entry in logs])


async def test_a_locked_database_is_written_when_it_is_free(tmp_path: Path) -> None:
    """Meanwhile pending answers are still loaded, and no caller gets an error."""
    async with opened(tmp_path, EAGER) as known:
        with locked(tmp_path), structlog.testing.capture_logs() as logs:
            known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
            known.store_ipns(DOMAIN, StoredEntry("/ipfs/x", AT))
            await until_logged(logs, "last known answers were not written")
            known.store("site.eth", ETHEREUM, Resolved(BOB, AT + timedelta(seconds=1)))
            assert await known.load("site.eth", ETHEREUM) == Resolved(
                BOB, AT + timedelta(seconds=1)
            )
            assert await known.load("other.eth", ETHEREUM) is None
        await wait_for_rows(tmp_path, 1)
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == Resolved(BOB, AT + timedelta(seconds=1))
        assert await known.load_ipns(DOMAIN) is not None


async def test_a_database_that_stays_locked_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    """One try, then what was not written is lost: it costs a lookup."""
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        with ExitStack() as until_stopped, structlog.testing.capture_logs() as logs:
            async with SqliteLastKnown(database, bounds=LAZY) as known:
                for number in range(2000):
                    known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
                until_stopped.enter_context(locked(tmp_path))
    events = [entry["event"] for entry in logs]
    assert events.count("last known answers were not written") == 1


async def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """What fits no more waits; when there is room again it is written."""

    def pages(limit: int) -> Callable[[sqlite3.Connection], int]:
        return lambda db: db.execute(f"PRAGMA max_page_count = {limit}").fetchone()[0]

    async with (
        LedgerDatabase(tmp_path / "ledger.sqlite") as database,
        SqliteLastKnown(database, bounds=EAGER) as known,
    ):
        await database.write(pages(1))
        with structlog.testing.capture_logs() as logs:
            for number in range(500):
                known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
            await until_logged(logs, "last known answers were not written")
        assert await known.load("499.eth", ETHEREUM) == Resolved(ALICE, AT)
        await database.write(pages(1_000_000))
        await wait_for_rows(tmp_path, 500)


async def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    """Tables that are gone, and a database that was closed, are silence and no error."""
    async with (
        LedgerDatabase(tmp_path / "ledger.sqlite") as database,
        SqliteLastKnown(database, bounds=LAZY) as known,
    ):
        await database.write(lambda db: db.execute("DROP TABLE resolutions"))
        await database.write(lambda db: db.execute("DROP TABLE ipns"))
        assert await known.load("site.eth", ETHEREUM) is None
        assert await known.load_ipns(DOMAIN) is None
        known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
        assert await known.load("site.eth", ETHEREUM) == Resolved(ALICE, AT)
    assert await known.load("other.eth", ETHEREUM) is None


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("resolutions", "content", "ipfs://bafy"),
        ("resolutions", "content", "ipns://not a name"),
        ("resolutions", "content", "ipfs://"),
        ("resolutions", "stored_at", 2**62),
        ("resolutions", "stored_at", -(2**62)),
        ("ipns", "ttl", 2**62),
        ("ipns", "stored_at", 2**62),
    ],
)
async def test_a_row_that_nobody_can_read_is_not_known(
    tmp_path: Path, table: str, column: str, value: object
) -> None:
    """Whoever wrote it: the name is looked up again, and the new answer replaces the row."""
    later = AT + timedelta(seconds=1)
    async with opened(tmp_path) as known:
        known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
        known.store_ipns(DOMAIN, StoredEntry("/ipfs/x", AT, ttl=timedelta(seconds=1)))
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    async with opened(tmp_path) as known:
        with structlog.testing.capture_logs() as logs:
            assert (await known.load("site.eth", ETHEREUM) is None) == (table == "resolutions")
            assert (await known.load_ipns(DOMAIN) is None) == (table == "ipns")
        assert [entry["key"] for entry in logs] == [
            "site.eth" if table == "resolutions" else DOMAIN.text
        ]
        known.store("site.eth", ETHEREUM, Resolved(BOB, later))
        known.store_ipns(DOMAIN, StoredEntry("/ipfs/y", later))
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == Resolved(BOB, later)
        assert await known.load_ipns(DOMAIN) == StoredEntry("/ipfs/y", later)


async def test_what_cannot_be_written_stands_in_nobodys_way(tmp_path: Path) -> None:
    """A value that no column takes is dropped, loudly; what comes after it is written."""
    async with opened(tmp_path) as known:
        with structlog.testing.capture_logs() as logs:
            known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
            known.store_ipns(DOMAIN, StoredEntry("/ipfs/\ud800", AT))
            await until_logged(logs, "last known answers cannot be written and are dropped")
        known.store("other.eth", ETHEREUM, Resolved(ALICE, AT))
        await wait_for_rows(tmp_path, 1)


# -- bounds ---------------------------------------------------------------------------------


async def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    """When the limit is reached names that wait already may change, and others are left out."""
    async with opened(tmp_path, StoreLimits(pending=3, flush_seconds=3600)) as known:
        for number in range(10):
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
            known.store_ipns(IpnsName.parse(f"{number}.example"), StoredEntry("/ipfs/x", AT))
        known.store("1.eth", ETHEREUM, Resolved(BOB, AT))
        known.store("2.eth", ETHEREUM, None)
        assert await known.load("1.eth", ETHEREUM) == Resolved(BOB, AT)
        assert await known.load("3.eth", ETHEREUM) is None
    await wait_for_rows(tmp_path, 2)
    await wait_for_rows(tmp_path, 3, table="ipns")


async def test_the_oldest_answers_give_way(tmp_path: Path) -> None:
    """The tables keep the newest answers, as many as their bounds say."""
    bounds = StoreLimits(resolutions=10, links=5, prune_every=40, flush_seconds=0)
    async with opened(tmp_path, bounds) as known:
        for number in range(60):
            at = AT + timedelta(seconds=number)
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, at))
            known.store_ipns(IpnsName.parse(f"{number}.example"), StoredEntry("/ipfs/x", at))
        await wait_for_rows(tmp_path, 10)
        await wait_for_rows(tmp_path, 5, table="ipns")
    async with opened(tmp_path, bounds) as known:
        assert await known.load("49.eth", ETHEREUM) is None
        assert await known.load("50.eth", ETHEREUM) is not None
        assert await known.load_ipns(IpnsName.parse("54.example")) is None
        assert await known.load_ipns(IpnsName.parse("55.example")) is not None


async def test_answers_of_one_moment_are_pruned_to_the_number(tmp_path: Path) -> None:
    """Ties are cut, neither kept nor dropped all together."""
    bounds = StoreLimits(resolutions=10, links=10, prune_every=1, flush_seconds=0)
    async with opened(tmp_path, bounds) as known:
        for number in range(60):
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
    await wait_for_rows(tmp_path, 10)


async def test_between_prunings_a_table_may_be_too_large(tmp_path: Path) -> None:
    """Pruning costs a walk along the index, so it is done once for many rows."""
    bounds = StoreLimits(resolutions=10, prune_every=100, flush_seconds=0)
    async with opened(tmp_path, bounds) as known:
        for number in range(109):
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT + timedelta(seconds=number)))
            if number in (0, 58, 98):
                await wait_for_rows(tmp_path, {0: 1, 58: 59, 98: 99}[number])
        await wait_for_rows(tmp_path, 10)


async def test_a_service_that_is_restarted_often_prunes_too(tmp_path: Path) -> None:
    """The first rows that a process writes are an occasion."""
    for start in range(3):
        async with opened(tmp_path, StoreLimits(resolutions=4, flush_seconds=0)) as known:
            for number in range(3):
                known.store(f"{start}-{number}.eth", ETHEREUM, Resolved(ALICE, AT))
    await wait_for_rows(tmp_path, 4)
