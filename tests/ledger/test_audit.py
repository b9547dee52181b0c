"""The audit log: what it tells is what happened, and it stays as small as it was set."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from content_gateway.api_keys import IssuedKeys
from content_gateway.errors import StorageUnavailable
from content_gateway.model.audit import AuditAction, AuditEntry, AuditSearch
from content_gateway.model.pins import NO_LABEL
from content_gateway.wiring.ledgers import Ledger
from tests.ledger.stands import Opened, Stand
from tests.ledgers import Clock, Held, cid
from tests.revoked import revoke

WHOLE = AuditSearch()


async def add(ledger: Held, *numbers: int, who: str = "anna") -> None:
    for number in numbers:
        await ledger.add(who, cid(number), str(cid(number)), NO_LABEL)


async def told(opened: Ledger, search: AuditSearch = WHOLE) -> list[tuple[str, ...]]:
    """The requestor, the action and the detail of each entry, newest first."""
    entries = await opened.search_audit(search)
    return [(entry.requestor, entry.action.value, entry.detail) for entry in entries]


async def test_each_pin_and_each_removal_is_told_once(
    opened: Opened, ledger: Held, clock: Clock
) -> None:
    """Whose it is, who did it, and when; what changes nothing is not told."""
    await add(ledger, 1)
    await add(ledger, 1)
    clock.now += 60
    await ledger.remove("anna", cid(1))
    await ledger.remove("anna", cid(1))
    await ledger.remove("ben", cid(1), by_operator=True)
    await add(ledger, 2, who="ben")
    await ledger.remove("ben", cid(2), by_operator=True)
    at = datetime.fromtimestamp(Clock().now, UTC)
    later = at + timedelta(seconds=60)
    one, two = str(cid(1)), str(cid(2))
    assert await opened.search_audit(WHOLE) == [
        AuditEntry(4, later, "ben", True, AuditAction.UNPIN, two, 1),
        AuditEntry(3, later, "ben", False, AuditAction.PIN, two, 1),
        AuditEntry(2, later, "anna", False, AuditAction.UNPIN, one, 1),
        AuditEntry(1, at, "anna", False, AuditAction.PIN, one, 1),
    ]


async def test_of_pins_that_are_added_together_each_is_told_once(
    opened: Opened, ledger: Held
) -> None:
    """Twice the same in one group is one pin, and one entry."""
    await asyncio.gather(*(add(ledger, number) for number in (1, 2, 1, 3, 2, 1)))
    assert sorted(await told(opened)) == [("anna", "pin", str(cid(n))) for n in (1, 2, 3)]


async def test_a_replacement_is_a_removal_and_a_pin(opened: Opened, ledger: Held) -> None:
    old = await ledger.add("anna", cid(1), "x", NO_LABEL)
    assert old is not None
    assert await ledger.replace("anna", old, cid(2), "y", NO_LABEL)
    assert await ledger.replace("anna", old, cid(3), "z", NO_LABEL) is None
    assert await told(opened) == [
        ("anna", "pin", str(cid(2))),
        ("anna", "unpin", str(cid(1))),
        ("anna", "pin", str(cid(1))),
    ]


async def test_the_log_is_never_a_lie(stand: Stand, opened: Opened, ledger: Held) -> None:
    """Where the entry cannot be written the pin is neither added nor removed."""
    await add(ledger, 1)
    await stand.run("ALTER TABLE audit RENAME TO hidden")
    with pytest.raises(StorageUnavailable):
        await add(ledger, 2)
    with pytest.raises(StorageUnavailable):
        await ledger.remove("anna", cid(1))
    assert await ledger.holds("anna", cid(1))
    assert not await ledger.holds("anna", cid(2))
    await stand.run("ALTER TABLE hidden RENAME TO audit")
    assert await told(opened) == [("anna", "pin", str(cid(1)))]


@pytest.mark.parametrize("entries", [1, 20, 300])
async def test_the_oldest_entries_go(stand: Stand, clock: Clock, entries: int) -> None:
    """At most as many stay as were set, and a sixteenth more; they are the newest."""
    async with stand.ledger(clock, entries=entries) as opened:
        await add(opened.pins, *range(700))
        kept = await told(opened)
    assert entries <= len(kept) <= entries + max(1, entries // 16)
    assert kept == [("anna", "pin", str(cid(number))) for number in range(699, -1, -1)][: len(kept)]


async def test_a_log_that_is_set_smaller_shrinks(stand: Stand, clock: Clock) -> None:
    """A bounded number at a time, while it is written to."""
    async with stand.ledger(clock, entries=10_000) as opened:
        await add(opened.pins, *range(500))
    sizes = []
    async with stand.ledger(clock, entries=32) as opened:
        for number in range(500, 700):
            await add(opened.pins, number)
            sizes.append(len(await told(opened)))
    assert max(before - after for before, after in itertools.pairwise(sizes)) <= 8
    assert sizes[-1] <= 34


async def test_without_a_log_nothing_is_kept(stand: Stand, clock: Clock) -> None:
    """With `audit.entries` 0 nothing is written, and what there was goes with the next flush."""
    async with stand.ledger(clock) as opened:
        await add(opened.pins, 1, 2)
    async with stand.ledger(clock, entries=0) as none:
        await add(none.pins, 3)
        assert len(await told(none)) == 2
        async with none.key_activity() as activity:
            activity.used("anna")
        assert await told(none) == []


async def test_what_the_operator_does_with_keys_is_told(opened: Opened) -> None:
    """Issued, rotated, revoked, by the operator; and never a secret."""
    keys = IssuedKeys(opened.keys)
    created = await keys.create("team", ["pin"], None)
    assert created is not None
    assert await keys.create("team", ["pin"], None) is None
    key, record = created
    rotated = await keys.rotate("team", timedelta(hours=1))
    assert await revoke(keys, "team")
    assert not await revoke(keys, "team")
    entries = await opened.search_audit(WHOLE)
    assert [entry.action for entry in entries] == ["revoke", "rotate", "create"]
    assert {(entry.requestor, entry.is_operator) for entry in entries} == {(record.id, True)}
    assert rotated is not None
    assert not any(secret[8:] in repr(entries) for secret in (key, rotated))


async def test_a_search_finds_what_passes_every_filter(
    opened: Opened, ledger: Held, clock: Clock
) -> None:
    """By requestor, by action, by time, and in pages."""
    await add(ledger, 1, 2)
    clock.now += 3_600
    await add(ledger, 3, who="ben")
    await ledger.remove("anna", cid(1))
    assert len(await told(opened, AuditSearch(requestor="anna"))) == 3
    assert await told(opened, AuditSearch(action=AuditAction.UNPIN)) == [
        ("anna", "unpin", str(cid(1)))
    ]
    since = datetime.fromtimestamp(clock.now, UTC)
    assert len(await told(opened, AuditSearch(since=since))) == 2
    found: list[AuditEntry] = []
    search = AuditSearch(limit=3)
    while page := await opened.search_audit(search):
        found += page
        search = AuditSearch(limit=3, before=page[-1].id)
    assert found == await opened.search_audit(WHOLE)


async def test_the_log_outlives_a_restart(stand: Stand, clock: Clock) -> None:
    for number in (1, 2):
        async with stand.ledger(clock) as opened:
            await add(opened.pins, number)
            assert len(await told(opened)) == number
