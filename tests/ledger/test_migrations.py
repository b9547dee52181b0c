"""A ledger of the first version, with pins in it, becomes one of today; nothing of it is lost."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from content_gateway.api_keys import IssuedKeys, hashed, mint
from content_gateway.codecs.timestamps import microseconds
from content_gateway.errors import KeyRefused, WrongSettings
from content_gateway.ledger.sqlite.api_keys import SqliteKeys
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import NO_LABEL, Match, Search
from tests.ledgers import as_it_is, cid, quota

AT = 1_790_000_000_123  # milliseconds
STATES = ("queued", "pinning", "pinned", "failed")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger as version 0.1 left it: forty contents, two requestors, one lease."""
    path = tmp_path / "ledger.sqlite"
    scripts = resources.files("content_gateway.ledger.sqlite").joinpath("migrations")
    with closing(sqlite3.connect(path)) as connection:
        for name in ("0001_ledger.sql", "0002_last_known.sql"):
            connection.executescript(scripts.joinpath(name).read_text())
        connection.execute("PRAGMA user_version = 2")
        for number in range(40):
            state, text = STATES[number % 4], str(cid(number))
            connection.execute(
                "INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(text, state, number % 5, None if state == "pinned" else AT + number),
                    *("dead" if number == 1 else None, "why" if state == "failed" else None, AT),
                ),
            )
            # Ten pins of one millisecond, then the next.
            row = ("anna", text, text if number % 2 else f"spelt {number}", AT + number // 10)
            connection.execute("INSERT INTO pins VALUES (?, ?, ?, ?)", row)
            if number % 3 == 0:
                connection.execute("INSERT INTO pins VALUES ('ben', ?, ?, ?)", (text, text, AT))
        connection.commit()
    return path


@pytest.fixture
async def database(old: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(old) as database:
        yield database


async def test_every_pin_is_kept(database: LedgerDatabase) -> None:
    """With its requestor, its spelling and its time, to the millisecond; each once."""
    ledger = SqlitePins(database, grace=60.0)
    page = await ledger.search("anna", Search(limit=1000), as_it_is)
    pins = {status.pin.cid: status.pin for status in page.pins}
    assert page.count == len(page.pins) == 40
    for number in range(40):
        pin = pins[cid(number)]
        assert pin.spelling == (str(cid(number)) if number % 2 else f"spelt {number}")
        assert microseconds(pin.created_at) // 1000 == AT + number // 10
        assert pin.label == NO_LABEL
    assert len({pin.created_at for pin in pins.values()}) == 40
    theirs = await ledger.search("ben", Search(limit=1000), as_it_is)
    assert {status.pin.cid for status in theirs.pins} == {cid(n) for n in range(0, 40, 3)}


async def test_every_content_is_where_it_was(database: LedgerDatabase) -> None:
    """In its state, with its reason; a lease of the old process is over when its time is."""
    ledger, contents = SqlitePins(database, grace=60.0), SqliteWorkQueue(database)
    assert (await contents.counts()) == {ContentState(state): 10 for state in STATES}
    for number in range(40):
        status = await ledger.status("anna", cid(number))
        assert status is not None
        assert (status.state, status.attempts) == (STATES[number % 4], number % 5)
        assert status.error == ("why" if number % 4 == 3 else None)
    item = await contents.lease("new", 30.0, quota(100))
    assert {each.cid for each in item} == {cid(n) for n in range(40) if n % 4 != 2}
    assert all(each.is_held and each.last_request is None for each in item)


async def test_it_is_migrated_once(old: Path) -> None:
    """Opened again nothing changes, and the tables are those of a new ledger."""
    new = old.with_name("new.sqlite")
    for path in (old, old, new):
        async with LedgerDatabase(path):
            pass
    assert schema(old) == schema(new)


async def test_a_migration_that_is_cut_off_leaves_the_old_ledger(old: Path) -> None:
    """All of it in one transaction: after a failure in the middle every pin is where it was."""
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE sweeps (in_the_way INTEGER)")
        connection.commit()
    with pytest.raises(WrongSettings):
        async with LedgerDatabase(old):
            pass
    with closing(sqlite3.connect(old)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (pins,) = connection.execute("SELECT count(*) FROM pins WHERE cid IS NOT NULL").fetchone()
        assert (version, pins) == (2, 54)
        connection.execute("DROP TABLE sweeps")
        connection.commit()
    async with LedgerDatabase(old) as database:
        page = await SqlitePins(database, grace=60.0).search("anna", Search(limit=1), as_it_is)
        assert page.count == 40


async def test_names_are_folded_for_searches(tmp_path: Path) -> None:
    """Those that were kept before names were folded are found like new ones, whatever their case;
    what is folded already is not kept twice."""
    path = tmp_path / "ledger.sqlite"
    scripts = resources.files("content_gateway.ledger.sqlite").joinpath("migrations")
    names = ["Straße", "strasse", "ЖУК", None]
    with closing(sqlite3.connect(path)) as connection:
        for step in sorted(step.name for step in scripts.iterdir())[:7]:
            connection.executescript(scripts.joinpath(step).read_text())
        connection.execute("PRAGMA user_version = 7")
        for number, name in enumerate(names):
            connection.execute(
                "INSERT INTO contents (cid, state, updated_at) VALUES (?, 'pinned', ?)",
                (str(cid(number)), AT),
            )
            connection.execute(
                "INSERT INTO pins (requestor, content, created_at, name)"
                " SELECT 'anna', max(id), ?, ? FROM contents",
                (AT * 1000 + number, name),
            )
        connection.commit()
    async with LedgerDatabase(path) as database:
        ledger = SqlitePins(database, grace=60.0)
        for name, match, found in (
            ("STRASSE", Match.IEXACT, ["strasse", "Straße"]),
            ("asse", Match.IPARTIAL, ["strasse", "Straße"]),
            ("уК", Match.IPARTIAL, ["ЖУК"]),
            ("жук", Match.EXACT, []),
        ):
            search = Search(name=name, match=match)
            page = await ledger.search("anna", search, as_it_is)
            assert [status.pin.label.name for status in page.pins] == found
        folded = database.read(
            lambda c: c.execute("SELECT folded FROM pins ORDER BY created_at").fetchall()
        )
        assert folded == [("strasse",), (None,), ("жук",), (None,)]


async def test_keys_are_kept_and_revoked_names_become_free(tmp_path: Path) -> None:
    """A key that was issued before names could be given out again lets in as it did, for the same
    requestor; the name of one that was revoked is free."""
    path = tmp_path / "ledger.sqlite"
    scripts = resources.files("content_gateway.ledger.sqlite").joinpath("migrations")
    made = {name: mint() for name in ("living", "revoked")}
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("casefold", 1, str.casefold)
        for step in sorted(step.name for step in scripts.iterdir())[:9]:
            connection.executescript(scripts.joinpath(step).read_text())
        connection.execute("PRAGMA user_version = 9")
        for name, key in made.items():
            revoked_at = AT if name == "revoked" else None
            connection.execute(
                "INSERT INTO api_keys VALUES (?, ?, ?, ?, 'pin', ?, NULL, ?)",
                (f"key_{name}", name, key[:8], hashed(key), AT, revoked_at),
            )
        connection.commit()
    async with LedgerDatabase(path) as database:
        keys = IssuedKeys(SqliteKeys(database))
        requestor = await keys.identify(made["living"])
        assert (requestor.id, requestor.scopes) == ("key_living", frozenset({"pin"}))
        with pytest.raises(KeyRefused):
            await keys.identify(made["revoked"])
        assert [(record.name, record.used_at) for record in await keys.all()] == [
            ("living", None),
            ("revoked", None),
        ]
        assert await keys.create("living", ["pin"], None) is None
        assert await keys.create("revoked", ["pin"], None) is not None


def schema(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        ).fetchall()
