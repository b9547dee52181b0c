"""The audit log: what it tells is what happened, and it stays as small as it was set."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from content_gateway.api_keys import IssuedKeys
from content_gateway.errors import StorageUnavailable
from content_gateway.ledger.sqlite.api_keys import SqliteKeys
from content_gateway.ledger.sqlite.audit import AuditLog, search_audit
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.audit import AuditAction, AuditEntry, AuditSearch
from content_gateway.model.pins import NO_LABEL
from tests.ledgers import Clock, cid
from tests.revoked import revoke

WHOLE = AuditSearch()


@pytest.fixture
def pins(database: LedgerDatabase, clock: Clock) -> SqlitePins:
    return SqlitePins(database, grace=60.0, audit=AuditLog(1_000), clock=clock)


async def add(pins: SqlitePins, *numbers: int, who: str = "anna") -> None:
    for number in numbers:
        await pins.add(who, cid(number), str(cid(number)), NO_LABEL)


async def told(database: LedgerDatabase, search: AuditSearch = WHOLE) -> list[tuple[str, ...]]:
    """The requestor, the action and the detail of each entry, newest first."""
    entries = await search_audit(database, search)
    return [(entry.requestor, entry.action.value, entry.detail) for entry in entries]


async def test_each_pin_and_each_removal_is_told_once(
    database: LedgerDatabase, pins: SqlitePins, clock: Clock
) -> None:
    """Whose it is, who did it, and when; what changes nothing is not told."""
    await add(pins, 1)
    await add(pins, 1)
    clock.now += 60
    await pins.remove("anna", cid(1))
    await pins.remove("anna", cid(1))
    await pins.remove("ben", cid(1), by_operator=True)
    await add(pins, 2, who="ben")
    await pins.remove("ben", cid(2), by_operator=True)
    at = datetime.fromtimestamp(Clock().now, UTC)
    later = at + timedelta(seconds=60)
    one, two = str(cid(1)), str(cid(2))
    assert await search_audit(database, WHOLE) == [
        AuditEntry(4, later, "ben", True, AuditAction.UNPIN, two, 1),
        AuditEntry(3, later, "ben", False, AuditAction.PIN, two, 1),
        AuditEntry(2, later, "anna", False, AuditAction.UNPIN, one, 1),
        AuditEntry(1, at, "anna", False, AuditAction.PIN, one, 1),
    ]


async def test_of_pins_that_are_added_together_each_is_told_once(
    database: LedgerDatabase, pins: SqlitePins
) -> None:
    """Twice the same in one group is one pin, and one entry."""
    await asyncio.gather(*(add(pins, number) for number in (1, 2, 1, 3, 2, 1)))
    assert sorted(await told(database)) == [("anna", "pin", str(cid(n))) for n in (1, 2, 3)]


async def test_a_replacement_is_a_removal_and_a_pin(
    database: LedgerDatabase, pins: SqlitePins
) -> None:
    old = await pins.add("anna", cid(1), "x", NO_LABEL)
    assert old is not None
    assert await pins.replace("anna", old, cid(2), "y", NO_LABEL)
    assert await pins.replace("anna", old, cid(3), "z", NO_LABEL) is None
    assert await told(database) == [
        ("anna", "pin", str(cid(2))),
        ("anna", "unpin", str(cid(1))),
        ("anna", "pin", str(cid(1))),
    ]


async def test_the_log_is_never_a_lie(database: LedgerDatabase, pins: SqlitePins) -> None:
    """Where the entry cannot be written the pin is neither added nor removed."""
    await add(pins, 1)
    await database.write(lambda c: c.execute("ALTER TABLE audit RENAME TO hidden"))
    with pytest.raises(StorageUnavailable):
        await add(pins, 2)
    with pytest.raises(StorageUnavailable):
        await pins.remove("anna", cid(1))
    assert pins.holds("anna", cid(1))
    assert not pins.holds("anna", cid(2))
    await database.write(lambda c: c.execute("ALTER TABLE hidden RENAME TO audit"))
    assert await told(database) == [("anna", "pin", str(cid(1)))]


@pytest.mark.parametrize("entries", [1, 20, 300])
async def test_the_oldest_entries_go(database: LedgerDatabase, clock: Clock, entries: int) -> None:
    """At most as many stay as were set, and a sixteenth more; they are the newest."""
    pins = SqlitePins(database, grace=60.0, audit=AuditLog(entries), clock=clock)
    await add(pins, *range(700))
    kept = await told(database)
    assert entries <= len(kept) <= entries + max(1, entries // 16)
    assert kept == [("anna", "pin", str(cid(number))) for number in range(699, -1, -1)][: len(kept)]


async def test_a_log_that_is_set_smaller_shrinks(database: LedgerDatabase, clock: Clock) -> None:
    """A bounded number at a time, while it is written to."""
    await add(SqlitePins(database, grace=60.0, audit=AuditLog(10_000), clock=clock), *range(500))
    small = SqlitePins(database, grace=60.0, audit=AuditLog(32), clock=clock)
    sizes = []
    for number in range(500, 700):
        await add(small, number)
        sizes.append(len(await told(database)))
    assert max(before - after for before, after in itertools.pairwise(sizes)) <= 8
    assert sizes[-1] <= 34


async def test_without_a_log_nothing_is_kept(database: LedgerDatabase, clock: Clock) -> None:
    """With `audit.entries` 0 nothing is written, and what there was goes with the next flush."""
    await add(SqlitePins(database, grace=60.0, audit=AuditLog(100), clock=clock), 1, 2)
    none = AuditLog(0)
    await add(SqlitePins(database, grace=60.0, audit=none, clock=clock), 3)
    assert len(await told(database)) == 2
    await database.write(none.shrink)
    assert await told(database) == []


async def test_what_the_operator_does_with_keys_is_told(database: LedgerDatabase) -> None:
    """Issued, rotated, revoked, by the operator; and never a secret."""
    keys = IssuedKeys(SqliteKeys(database, AuditLog(100)))
    created = await keys.create("team", ["pin"], None)
    assert created is not None
    assert await keys.create("team", ["pin"], None) is None
    key, record = created
    rotated = await keys.rotate("team", timedelta(hours=1))
    assert await revoke(keys, "team")
    assert not await revoke(keys, "team")
    entries = await search_audit(database, WHOLE)
    assert [entry.action for entry in entries] == ["revoke", "rotate", "create"]
    assert {(entry.requestor, entry.is_operator) for entry in entries} == {(record.id, True)}
    assert rotated is not None
    assert not any(secret[8:] in repr(entries) for secret in (key, rotated))


async def test_a_search_finds_what_passes_every_filter(
    database: LedgerDatabase, pins: SqlitePins, clock: Clock
) -> None:
    """By requestor, by action, by time, and in pages."""
    await add(pins, 1, 2)
    clock.now += 3_600
    await add(pins, 3, who="ben")
    await pins.remove("anna", cid(1))
    assert len(await told(database, AuditSearch(requestor="anna"))) == 3
    assert await told(database, AuditSearch(action=AuditAction.UNPIN)) == [
        ("anna", "unpin", str(cid(1)))
    ]
    since = datetime.fromtimestamp(clock.now, UTC)
    assert len(await told(database, AuditSearch(since=since))) == 2
    found: list[AuditEntry] = []
    search = AuditSearch(limit=3)
    while page := await search_audit(database, search):
        found += page
        search = AuditSearch(limit=3, before=page[-1].id)
    assert found == await search_audit(database, WHOLE)


async def test_the_log_outlives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "restarted.sqlite"
    async with LedgerDatabase(path) as database:
        await add(SqlitePins(database, grace=60.0, audit=AuditLog(10)), 1)
    async with LedgerDatabase(path) as database:
        await add(SqlitePins(database, grace=60.0, audit=AuditLog(10)), 2)
        assert [entry.id for entry in await search_audit(database, WHOLE)] == [2, 1]
