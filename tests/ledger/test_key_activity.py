"""What keys do is noted in memory, and written seldom: the last use, and refusals by the hour."""

from datetime import UTC, datetime, timedelta

import pytest

from content_gateway.api_keys import IssuedKeys, mint
from content_gateway.errors import KeyRefused
from content_gateway.ledger.sqlite.api_keys import SqliteKeys
from content_gateway.ledger.sqlite.audit import AuditLog, search_audit
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.key_activity import SqliteKeyActivity
from content_gateway.model.audit import AuditSearch
from tests.revoked import revoke

START = datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)


class Day:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def day() -> Day:
    return Day()


async def counted(database: LedgerDatabase) -> list[tuple[str, str, datetime, int]]:
    entries = await search_audit(database, AuditSearch(limit=10_000))
    return [(entry.requestor, entry.detail, entry.at, entry.number) for entry in entries]


async def test_the_last_use_is_known_to_the_minute(database: LedgerDatabase, day: Day) -> None:
    """A key that was let in has a last use after the next flush; one that was not has none."""
    activity = SqliteKeyActivity(database, AuditLog(100), today=day)
    keys = IssuedKeys(SqliteKeys(database), activity=activity)
    created = await keys.create("used", ["pin"], None)
    assert created is not None
    await keys.create("unused", ["pin"], None)
    await keys.identify(created[0])
    assert [record.used_at for record in await keys.all()] == [None, None]
    await activity.flush()
    assert [record.used_at for record in await keys.all()] == [START.replace(second=0), None]


async def test_the_last_use_is_that_of_all_processes(database: LedgerDatabase, day: Day) -> None:
    """Who writes an earlier minute later sets nothing back; what a wrong clock wrote goes."""
    slow, quick = (SqliteKeyActivity(database, AuditLog(100), today=day) for _ in range(2))
    keys = SqliteKeys(database)
    created = await IssuedKeys(keys).create("used", ["pin"], None)
    assert created is not None
    slow.used(created[1].id)
    day.now += timedelta(minutes=5)
    quick.used(created[1].id)
    await quick.flush()
    await slow.flush()
    later = day.now.replace(second=0)
    assert (await keys.all())[0].used_at == later
    day.now -= timedelta(hours=1)  # it was an hour ahead
    slow.used(created[1].id)
    await slow.flush()
    assert (await keys.all())[0].used_at == later - timedelta(hours=1)


async def test_a_clean_stop_writes_what_was_noted(database: LedgerDatabase, day: Day) -> None:
    keys = SqliteKeys(database)
    async with SqliteKeyActivity(database, AuditLog(100), today=day) as activity:
        created = await IssuedKeys(keys, activity=activity).create("team", ["pin"], None)
        assert created is not None
        await IssuedKeys(keys, activity=activity).identify(created[0])
        activity.refused("anna", "blocked")
        assert (await keys.all())[0].used_at is None
    assert (await keys.all())[0].used_at is not None
    assert len(await counted(database)) == 1


async def test_a_flood_of_refusals_is_one_entry(database: LedgerDatabase, day: Day) -> None:
    """Of each key, code and hour, however often it is flushed."""
    activity = SqliteKeyActivity(database, AuditLog(100), today=day)
    for _ in range(3):
        for _ in range(10_000):
            activity.refused("anna", "rate-limited")
        activity.refused("anna", "blocked")
        await activity.flush()
    day.now += timedelta(hours=1)
    activity.refused("anna", "blocked")
    await activity.flush()
    hour = START.replace(minute=0, second=0)
    assert await counted(database) == [
        ("anna", "blocked", hour + timedelta(hours=1), 1),
        ("anna", "blocked", hour, 3),
        ("anna", "rate-limited", hour, 30_000),
    ]


async def test_many_requestors_share_an_entry(database: LedgerDatabase, day: Day) -> None:
    """Whoever may be as many requestors as it likes fills neither memory nor the log."""
    activity = SqliteKeyActivity(database, AuditLog(100_000), today=day)
    for number in range(5_000):
        activity.refused(f"open_{number}", "blocked")
        if number % 500 == 0:
            await activity.flush()
    await activity.flush()
    found = await counted(database)
    assert len(found) == 1_001
    assert sum(number for *_, number in found) == 5_000
    assert [number for who, _, _, number in found if who == "others"] == [4_000]


async def test_refusals_count_in_the_size_of_the_log(database: LedgerDatabase, day: Day) -> None:
    activity = SqliteKeyActivity(database, AuditLog(50), today=day)
    for number in range(200):
        activity.refused(f"key_{number}", "blocked")
    await activity.flush()
    assert len(await counted(database)) == 50


async def test_what_cannot_be_written_is_written_later(database: LedgerDatabase, day: Day) -> None:
    """In an outage of the ledger notes are kept, and added up."""
    activity = SqliteKeyActivity(database, AuditLog(100), today=day)
    await database.write(lambda c: c.execute("ALTER TABLE audit RENAME TO hidden"))
    activity.refused("anna", "blocked")
    await activity.flush()
    activity.refused("anna", "blocked")
    await database.write(lambda c: c.execute("ALTER TABLE hidden RENAME TO audit"))
    await activity.flush()
    assert [number for *_, number in await counted(database)] == [2]


async def test_a_key_that_is_known_and_refused_is_told(database: LedgerDatabase, day: Day) -> None:
    """Revoked and expired keys by their reason; of a key that nobody issued nothing is known."""
    activity = SqliteKeyActivity(database, AuditLog(100), today=day)
    keys = IssuedKeys(SqliteKeys(database), activity=activity)
    gone = await keys.create("gone", ["pin"], None)
    short = await keys.create("short", ["pin"], timedelta(seconds=-1))
    assert gone is not None
    assert short is not None
    await revoke(keys, "gone")
    for key in (gone[0], short[0], mint()):
        with pytest.raises(KeyRefused):
            await keys.identify(key)
    await activity.flush()
    assert {detail for _, detail, _, _ in await counted(database)} == {"key-revoked", "key-expired"}
