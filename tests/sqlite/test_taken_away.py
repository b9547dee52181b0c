"""Files of the ledger that are taken away, or changed, under a running service.

SQLite goes on in such a case: it writes to what it has open, and an answer would be a promise that
nobody can keep. Here every write is refused, as is every read that would repeat a promise, until
the files are what they were."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.pins import NO_LABEL, Pin, Search
from content_gateway.sqlite.database_files import DatabaseFiles
from tests.ledgers import as_it_is, cid
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def database(folder: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(folder / "ledger.sqlite") as database:
        yield database


async def add(ledger: SqlitePins, *numbers: int) -> list[object]:
    pins = (ledger.add("anna", cid(number), str(cid(number)), NO_LABEL) for number in numbers)
    return list(await asyncio.gather(*pins, return_exceptions=True))


def kept(path: Path, mode: str = "mode=ro") -> int:
    """How many pins somebody finds who opens the ledger at *path* now; with the mode `immutable=1`
    in the file itself, without its log."""
    try:
        with closing(sqlite3.connect(f"file:{path}?{mode}", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM pins").fetchone()[0])
    except sqlite3.Error:
        return -1


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def remove(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def empty(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(0)


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def replace_by_garbage(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"garbage" * 1000)
    other.replace(path)


def replace_by_a_copy(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy(path, other)
    other.replace(path)


def copy_garbage_over(path: Path) -> None:
    """As `cp` does it: the file stays the same one."""
    path.write_bytes(b"garbage" * 10_000)


def remove_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def rename_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("another folder"))


def remove_all_but_the_database(path: Path) -> None:
    """As some do to get rid of a lock."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()


def of_the_log(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        change(log_of(path))

    changed.__name__ = f"{change.__name__}_log"
    return changed


CHANGES = [
    *(remove, rename, empty, cut),
    *(replace_by_garbage, replace_by_a_copy, copy_garbage_over),
]
DAMAGE = [
    *CHANGES,
    *map(of_the_log, CHANGES),
    *(remove_all_but_the_database, remove_the_folder, rename_the_folder),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
async def test_nothing_is_promised_that_is_not_kept(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins, damage: Callable[[Path], None]
) -> None:
    """Pins are refused afterwards, and the log says why, once. A pin that is there already is not
    confirmed, no list is shown, and no new ledger is made."""
    path = folder / "ledger.sqlite"
    assert all(await add(ledger, *range(5)))
    with capture_logs() as logs:
        damage(path)
        is_there = path.exists()
        answers = await add(ledger, *range(10, 20)) + await add(ledger, *range(20, 22))
        with pytest.raises(StorageUnavailable):
            await ledger.holds("anna", cid(1))
        with pytest.raises(StorageUnavailable):
            await ledger.status("anna", cid(1))
        with pytest.raises(StorageUnavailable):
            await ledger.search("anna", Search(), as_it_is)
    assert {type(answer) for answer in answers} == {StorageUnavailable}
    assert [line["event"] for line in logs if "taken away" in line["event"]] == [
        "the files of a database were taken away or changed, nothing is promised"
    ]
    assert path.exists() == is_there


async def test_an_older_copy_is_noticed(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins
) -> None:
    """A backup that is copied over the ledger of a running service (`cp`: the same file, as long as
    before): no pin is acknowledged in the mixture."""
    path = folder / "ledger.sqlite"
    assert all(await add(ledger, 1))
    await until(lambda: kept(path, "immutable=1") == 1)
    backup = path.read_bytes()
    assert all(await add(ledger, 2))
    await until(lambda: kept(path, "immutable=1") == 2)
    await until(lambda: not database._files.is_behind)  # the checkpoint is over, its sync too
    database._files.check()  # as it does once a second
    path.write_bytes(backup)
    assert [type(answer) for answer in await add(ledger, 3)] == [StorageUnavailable]


@pytest.mark.parametrize("what", ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", ""])
async def test_what_is_put_back_serves_again(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins, what: str
) -> None:
    """A file, or the folder, that was renamed and comes back: nothing is lost, no restart."""
    place, away = folder / what, folder.parent / "away"
    assert all(await add(ledger, *range(5)))
    place.rename(away)
    assert {type(answer) for answer in await add(ledger, 5, 6)} == {StorageUnavailable}
    away.rename(place)
    with capture_logs() as logs:
        assert all(isinstance(answer, Pin) for answer in await add(ledger, 5, 6))
    assert [line["event"] for line in logs] == ["the files of a database are back"]
    assert kept(folder / "ledger.sqlite") == 7
    assert (await ledger.search("anna", Search(), as_it_is)).count == 7


async def test_what_was_in_a_log_that_was_removed_is_saved(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins
) -> None:
    """The log is still open here: all that was promised in it is put into the database."""
    path = folder / "ledger.sqlite"
    assert all(await add(ledger, *range(50)))
    log_of(path).unlink()
    await until(lambda: kept(path, "immutable=1") == 50)


async def test_what_follows_at_once_is_not_written_either(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is renamed between two commits that follow at once, after the files were checked
    for the first: the second one is refused, and is not in the renamed file."""
    path, is_queued = folder / "ledger.sqlite", threading.Event()
    check, threads = DatabaseFiles.check, []

    def check_and_take(files: DatabaseFiles) -> None:
        check(files)
        if threading.current_thread() is not threading.main_thread():
            threads.append(threading.current_thread().name)
            if len(threads) == 2:  # before the first commit, and after it
                rename(path)

    monkeypatch.setattr(DatabaseFiles, "check", check_and_take)
    first = asyncio.create_task(database.write(lambda _: is_queued.wait(60)))
    await until(lambda: len(threads) == 1)
    second = asyncio.create_task(add(ledger, 2))
    await asyncio.sleep(0.01)  # it waits for the first
    is_queued.set()
    assert await first
    assert isinstance((await second)[0], StorageUnavailable)
    folder.joinpath("elsewhere").rename(path)
    assert kept(path) == 0


async def test_an_idle_service_notices_too(database: LedgerDatabase, folder: Path) -> None:
    """Within a second or so, without anybody asking."""
    with capture_logs() as logs:
        rename(folder / "ledger.sqlite")
        await until(lambda: any(line["log_level"] == "error" for line in logs))


async def test_a_log_without_its_database_is_not_thrown_away(tmp_path: Path) -> None:
    """SQLite makes an empty ledger there, and removes the log that promises are in."""
    path = tmp_path / "ledger.sqlite"
    log_of(path).write_bytes(b"what was promised")
    for empty_file in (False, True):
        if empty_file:
            path.touch()
        with pytest.raises(WrongSettings, match=r"ledger\.sqlite-wal is there"):
            async with LedgerDatabase(path):
                pass
        assert log_of(path).read_bytes() == b"what was promised"


async def test_a_busy_ledger_is_never_taken_for_a_changed_one(
    database: LedgerDatabase, folder: Path, ledger: SqlitePins
) -> None:
    """Commits of this and of another process beside it, and checkpoints of the log, which begins
    again many times, are no damage."""
    path, is_over = folder / "ledger.sqlite", threading.Event()

    def others() -> int:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # one process alone checkpoints
            commits = 0
            while not is_over.wait(0.02):
                connection.execute(
                    "UPDATE contents SET status_checks = status_checks + 1 WHERE id < 10"
                )
                commits += 1
        return commits

    other = asyncio.create_task(asyncio.to_thread(others))
    begun = set()
    try:
        with capture_logs() as logs:
            for number in range(0, 100_000, 100):
                pins = await add(ledger, *range(number, number + 100))
                assert all(isinstance(pin, Pin) for pin in pins), pins
                begun.add(log_of(path).read_bytes()[16:24])
                if number >= 4_000 and len(begun) > 1:  # on a busy machine it takes longer
                    break
                await asyncio.sleep(0.05)
    finally:
        is_over.set()
    assert await other > 10
    assert len(begun) > 1
    assert not logs


async def test_other_databases_than_ledgers_are_refused_in_words(
    database: LedgerDatabase, ledger: SqlitePins
) -> None:
    """Whatever SQLite says, in a search or a look-up, is 503 with words and no bug."""

    def broken(connection: sqlite3.Connection) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    with pytest.raises(StorageUnavailable, match="cannot be read"):
        database.read(broken)
    with pytest.raises(StorageUnavailable, match="cannot be read"):
        await database.search(broken)
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        await database.write(broken)
