"""The smaller stores, over every adapter: what one process writes, another reads."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from content_gateway.api_keys import IssuedKeys
from content_gateway.errors import KeyRefused, WrongSettings
from content_gateway.model.audit import AuditSearch
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.backlog import PENDING
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    LastRequest,
    Outcome,
    ResyncReport,
    TrackerStatus,
)
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.pins import NO_LABEL, Holdings
from content_gateway.model.records import Records, Resolved, StoredEntry
from content_gateway.model.wallet import ETHEREUM
from tests.ledger.stands import Opened, PostgresStand, Stand
from tests.ledgers import LEASE, Clock, World, cid, numbers, quota

NAME = IpnsName.parse("example.org")
PINNED = Outcome(Event.SEEN_PINNED, None, BackendStatus(TrackerStatus.PINNED, 3, 3))


def at(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now, UTC)


async def test_answers_outlive_their_process(stand: Stand, clock: Clock) -> None:
    """The newer one wins, absence deletes, and a time from the future gives way."""
    alice, bob = Records("0x" + "aa" * 20), Records("0x" + "bb" * 20)
    moment = at(clock)
    for records, when, expected in (
        (alice, moment, alice),
        (bob, moment - timedelta(seconds=1), alice),  # an older one
        (bob, moment + timedelta(days=9), bob),  # by a wrong clock
        (alice, moment, alice),
    ):
        async with stand.ledger(clock) as ledger, ledger.last_known() as known:
            known.store("site.eth", ETHEREUM, Resolved(records, when))
        async with stand.ledger(clock) as ledger, ledger.last_known() as known:
            found = await known.load("site.eth", ETHEREUM)
            assert found is not None
            assert found.records == expected
    async with stand.ledger(clock) as ledger, ledger.last_known() as known:
        known.store_ipns(NAME, StoredEntry("/ipfs/x", moment, b"\0record", timedelta(seconds=9)))
        known.store("site.eth", ETHEREUM, None)
    async with stand.ledger(clock) as ledger, ledger.last_known() as known:
        assert await known.load("site.eth", ETHEREUM) is None
        entry = StoredEntry("/ipfs/x", moment, b"\0record", timedelta(seconds=9))
        assert await asyncio.gather(*(known.load_ipns(NAME) for _ in range(9))) == [entry] * 9
        assert await known.load_ipns(IpnsName.parse("other.org")) is None


async def test_the_use_of_keys_is_written(opened: Opened, clock: Clock) -> None:
    """To the minute; refusals as one entry for each hour, however many processes count them."""
    keys = IssuedKeys(opened.keys)
    created = await keys.create("team", ["pin"], None)
    assert created is not None
    for _ in range(2):
        async with opened.key_activity() as activity:
            activity.used(created[1].id)
            for _ in range(3):
                activity.refused("anna", "blocked")
    (record,) = await keys.all()
    assert record.used_at == at(clock).replace(second=0, microsecond=0)
    counted = [entry for entry in await opened.search_audit(AuditSearch()) if entry.number > 1]
    assert [(entry.requestor, entry.detail, entry.number) for entry in counted] == [
        ("anna", "blocked", 6)
    ]


async def test_keys_are_found_by_both_secrets(stand: Stand, clock: Clock) -> None:
    """While the old one is in its grace; from another process too, and not once revoked."""
    async with stand.ledger(clock) as here, stand.ledger(clock) as there:
        ours, theirs = IssuedKeys(here.keys), IssuedKeys(there.keys)
        created = await ours.create("team", ["pin"], timedelta(days=1), limits={"pins": 3})
        assert created is not None
        assert await theirs.create("team", ["pin"], None) is None
        old, record = created
        new = await theirs.rotate("team", timedelta(hours=1))
        assert new is not None
        found = await asyncio.gather(*(theirs.identify(key) for key in (old, new) * 20))
        assert {one.id for one in found} == {record.id}
        described = await ours.describe(old)
        assert described is not None
        assert described.limits == {"pins": 3}
        assert await ours.revoke(record.id)
        assert not await theirs.revoke(record.id)
        with pytest.raises(KeyRefused):
            await IssuedKeys(there.keys).identify(new)
        assert await ours.create("team", ["pin"], None) is not None  # its name is free again


async def test_a_job_has_one_owner(opened: Opened, clock: Clock) -> None:
    jobs = opened.resyncs
    assert await jobs.acquire_job("resync", "a", 30.0, 3_600.0)
    assert not await jobs.acquire_job("resync", "b", 30.0, 3_600.0)
    clock.now += 20
    assert await jobs.renew_job("resync", "a", 30.0)
    assert not await jobs.renew_job("resync", "b", 30.0)
    clock.now += 31
    assert await jobs.acquire_job("resync", "b", 30.0, 3_600.0)
    assert not await jobs.renew_job("resync", "a", 30.0)
    await jobs.finish_job("resync", "b", 600.0)
    assert not await jobs.acquire_job("resync", "a", 30.0, 3_600.0)
    await jobs.trigger_job("resync")
    assert await jobs.acquire_job("resync", "a", 30.0, 3_600.0)


async def test_a_resync_finds_final_pins_and_makes_them_due(world: World, opened: Opened) -> None:
    await world.promise(1, 2, 3)
    items = await world.lease()
    await world.record(PINNED, *items[:2])
    found = await opened.resyncs.known([cid(1), cid(9)])
    assert [(one.is_held, one.replicas, one.wanted) for one in found.values()] == [(True, 3, 3)]
    final = await opened.resyncs.final_pins(0, 9, world.clock.now)
    assert list(final) == sorted(item.id for item in items[:2])
    await opened.resyncs.recheck([*final, items[2].id])
    again = await world.lease()
    assert sorted(numbers(again)) == sorted(numbers(items[:2]))
    assert all(item.status_checks >= 2 for item in again)
    assert await opened.resyncs.last_report() is None
    report = ResyncReport(1.0, 2.0, 3, 4, 5, (cid(7),), under_replicated=6)
    for _ in range(120):
        await opened.resyncs.report(report)
    assert await opened.resyncs.last_report() == report


async def test_health_is_kept_once(opened: Opened, clock: Clock) -> None:
    assert await opened.health.last() is None
    for number in range(3):
        await opened.health.store(BackendHealth(kept_at=at(clock), reason=f"no {number}"))
        found = await opened.health.last()
        assert found is not None
        assert (found.reason, found.kept_at) == (f"no {number}", at(clock))


async def test_a_clock_that_was_wrong_holds_nothing_up(world: World) -> None:
    """Waits that a wrong clock has written end, leases are cut, and a grace period is kept."""
    await world.promise(1, 2, 3, 4)
    items = {number: item for item in await world.lease() for number in numbers([item])}
    await world.record(Outcome(None, 10 * 86_400.0), items[1])
    await world.record(Outcome(None, 100.0), items[2])
    await world.ledger.remove("anna", cid(3))
    await world.record(PINNED, items[3])
    await world.contents.renew("a", [items[4]], 20 * 86_400.0)
    await world.contents.rebase(longest=3_600.0, lease=LEASE, back=0.0)
    assert numbers(await world.lease("b")) == [1]
    world.clock.now += LEASE + 1
    assert sorted(numbers(await world.lease("c"))) == [1, 4]
    await world.contents.rebase(longest=3_600.0, lease=LEASE, back=90.0)
    assert 2 in numbers(await world.lease("d"))


async def test_what_was_sent_in_the_future_was_sent_just_now(world: World) -> None:
    """The age of its request begins when that is first seen, and ends."""
    world.clock.now += 365 * 86_400.0
    await world.promise(1)
    (item,) = await world.lease()
    begun = await world.contents.begin("a", item, LastRequest.PIN, None)
    assert begun is not None
    await world.record(Outcome(None, 1.0), begun)
    world.clock.now -= 365 * 86_400.0
    await world.contents.rebase(longest=3_600.0, lease=LEASE, back=0.0)
    for _ in range(2):
        (item,) = await world.lease()
        await world.record(Outcome(None, 0.0), item)
        world.clock.now += 7.0
    assert item.requested_at == world.clock.now - 14.0


async def test_the_same_backend_may_be_claimed_again(stand: Stand, clock: Clock) -> None:
    """By the next process and by many at once. Where machines share a ledger, one with another kind
    of backend is refused, also of several that come at the same moment all but one kind; a file has
    the lock beside it."""
    kinds = ("ipfs-cluster", "kubo") * 3
    async with AsyncExitStack() as stack:
        ledgers = [await stack.enter_async_context(stand.ledger(clock)) for _ in kinds]
        claims = (ledger.claim_backend(kind) for ledger, kind in zip(ledgers, kinds, strict=True))
        found = await asyncio.gather(*claims, return_exceptions=True)
        (first, *_) = (kind for kind, error in zip(kinds, found, strict=True) if error is None)
        for kind, error in zip(kinds, found, strict=True):
            is_refused = isinstance(stand, PostgresStand) and kind != first
            assert isinstance(error, WrongSettings) is is_refused
        await ledgers[0].claim_backend(first)


async def test_operators_are_told_what_waits(world: World, opened: Opened) -> None:
    """States, reasons, the longest wait, what each key has, and every pin in its order."""
    keys = IssuedKeys(opened.keys)
    created = await keys.create("team", ["pin"], None)
    assert created is not None
    who = created[1].id
    await world.promise(1, 2, 3)
    await world.promise(2, 4, who=who)
    items = {number: item for item in await world.lease() for number in numbers([item])}
    await world.record(Outcome(Event.SEEN_FAILED, 60.0, None, "no peer"), items[1])
    await world.record(PINNED, items[2])
    counts = await world.contents.counts()
    assert (counts[ContentState.FAILED], counts[ContentState.PINNED]) == (1, 1)
    backlog = await opened.work.backlog(at(world.clock))
    assert (backlog.leased, backlog.by_state[ContentState.QUEUED]) == (2, 2)
    assert await opened.work.reasons(9) == {None: 2, "no peer": 1}
    assert {one.cid for one in await opened.work.waiting(9, PENDING)} == {cid(3), cid(4)}
    assert await opened.holdings_by_key() == {who: Holdings(2, 0, 2)}
    assert await opened.requestor_from("") == "anna"
    assert await opened.requestor_from("anna\0") == who
    assert await opened.requestor_from(who + "\0") is None
    pages = [page async for page in opened.oldest_first("anna")]
    assert [status.pin.cid for page in pages for status in page] == [cid(1), cid(2), cid(3)]
    await opened.check_writable()


async def test_limits_hold_between_processes(stand: Stand, clock: Clock) -> None:
    """Two processes add at the same time: no more than the limit, and every moment once."""
    async with stand.ledger(clock) as one, stand.ledger(clock) as other:
        adding = (
            (one, other)[n % 2].pins.add("anna", cid(n), "x", NO_LABEL, most=20) for n in range(60)
        )
        added = await asyncio.gather(*adding, return_exceptions=True)
        made = [pin for pin in added if not isinstance(pin, BaseException)]
        assert len(made) == 20
        assert len({pin.created_at for pin in made if pin is not None}) == 20
        assert len(await one.work.lease("a", LEASE, quota(100))) == 20
        assert await other.work.lease("b", LEASE, quota(100)) == []
