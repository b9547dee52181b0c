"""The work queue, over every adapter: a lease is held by one worker at a time, and only its
holder records outcomes."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from content_gateway.ledger.pin_rows import STATUS
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pin_searches import conditions_of
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
    Peer,
    TrackerStatus,
)
from content_gateway.model.pins import Search
from tests.ledgers import LEASE, Clock, World, cid, numbers, quota

PINNED = Outcome(Event.SEEN_PINNED, None, BackendStatus(TrackerStatus.PINNED, 1))
AGAIN = Outcome(Event.SEEN_PINNING, 5.0)


# Leases.


async def test_a_content_is_leased_once(world: World) -> None:
    """Twenty owners that ask at once share what is due, and nothing twice."""
    await world.promise(*range(100))
    parts = await asyncio.gather(*(world.lease(f"owner {n}", 3, 3) for n in range(20)))
    found = [number for part in parts for number in numbers(part)]
    assert sorted(found) == list(range(100))
    assert not await world.contents.any_due(quota(9))


async def test_a_lease_runs_out(world: World) -> None:
    """Whoever died with it is followed by another, and not before."""
    await world.promise(1)
    await world.lease("dead")
    world.clock.now += LEASE - 0.1
    assert await world.lease("next") == []
    world.clock.now += 0.2
    assert numbers(await world.lease("next")) == [1]


async def test_a_lease_is_extended(world: World) -> None:
    """As long as its owner says so; and by nobody else."""
    await world.promise(1)
    items = await world.lease()
    for _ in range(5):
        world.clock.now += LEASE - 1
        await world.contents.renew("a", items, LEASE)
        assert await world.lease("b") == []
    world.clock.now += LEASE + 1
    await world.contents.renew("b", items, LEASE)
    assert await world.contents.any_due(quota(9))


async def test_first_tries_and_retries_have_shares(world: World) -> None:
    """What was tried before never takes the room of what was not; its own it leaves, if it must."""
    await world.promise(*range(20))
    items = await world.lease()
    await world.record(AGAIN, *items)
    world.clock.now += 10
    await world.promise(*range(100, 120))
    found = numbers(await world.lease("a", 5, 5))
    assert len([n for n in found if n < 100]) == 5
    assert len([n for n in found if n >= 100]) == 5
    rest = numbers(await world.lease("a", 5, 100))
    assert sorted(rest) == sorted({*range(20), *range(100, 120)} - set(found))
    assert await world.lease("a", 5, 100) == []


async def test_retries_leave_their_room_to_first_tries(world: World) -> None:
    """With nothing to retry all workers try for the first time; the other way round they do not."""
    await world.promise(*range(20))
    items = await world.lease("a", 5, 5)
    assert len(items) == 10
    await world.record(Outcome(Event.SEEN_QUEUED, 0.0), *items)
    await world.contents.record_outcomes(
        "b", [(item, PINNED) for item in await world.lease("b", 10, 0)]
    )
    assert len(await world.lease("c", 100, 4)) == 4


async def test_releases_have_a_queue_of_their_own(world: World) -> None:
    """What nobody holds can be leased where nothing may be taken in."""
    await world.promise(1, 2)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += 61
    (item,) = await world.contents.lease("a", LEASE, LeaseQuota(10, releases=10))
    assert (item.cid, item.is_held) == (cid(1), False)
    assert numbers(await world.contents.lease("a", LEASE, LeaseQuota(10, releases=10))) == []
    assert numbers(await world.lease()) == [2]


async def test_the_oldest_is_leased_first(world: World) -> None:
    for number in (5, 3, 9):
        await world.promise(number)
        world.clock.now += 1
    assert [numbers(await world.lease("a", 1, 0)) for _ in range(3)] == [[5], [3], [9]]


# Outcomes.


async def test_a_lost_lease_writes_nothing(world: World) -> None:
    """Its former holder neither sends nor records, and does not disturb the new holder."""
    await world.promise(1)
    (old,) = await world.lease("slow")
    world.clock.now += LEASE + 1
    (new,) = await world.lease("quick")
    assert await world.contents.begin("slow", old, LastRequest.PIN, None) is None
    await world.contents.record_outcomes("slow", [(old, PINNED)])
    await world.contents.progress("slow", old, 1, 1)
    await world.contents.release("slow")
    assert (await world.status(1)).state is ContentState.QUEUED
    assert await world.lease("third") == []
    begun = await world.contents.begin("quick", new, LastRequest.PIN, None)
    assert begun is not None
    await world.contents.record_outcomes("quick", [(begun, PINNED)])
    assert (await world.status(1)).state is ContentState.PINNED


async def test_an_older_generation_stores_nothing(world: World) -> None:
    """Released and pinned again meanwhile: the outcome is dropped, and it is due at once."""
    await world.promise(1)
    (item,) = await world.lease()
    begun = await world.contents.begin("a", item, LastRequest.PIN, None)
    assert begun is not None
    await world.ledger.remove("anna", cid(1))
    await world.promise(1)
    assert not await world.contents.any_due(quota(9))  # the worker still has its lease
    assert await world.contents.begin("a", item, LastRequest.PIN, None) is None
    await world.record(PINNED, begun)
    assert (await world.status(1)).state is ContentState.QUEUED
    (again,) = await world.lease("b")
    assert again.generation > begun.generation
    assert (again.last_request, again.is_held, again.attempts) == (LastRequest.PIN, True, 0)


async def test_a_content_released_under_a_lease_keeps_its_grace_period(world: World) -> None:
    await world.promise(1)
    (item,) = await world.lease()
    await world.ledger.remove("anna", cid(1))
    await world.record(PINNED, item)
    world.clock.now += 59.9
    assert await world.lease() == []
    world.clock.now += 0.2
    (item,) = await world.lease()
    assert item.state is ContentState.UNPINNING


async def test_whether_somebody_holds_it_is_counted_again(world: World) -> None:
    """A request to unpin is not recorded where somebody came back after the lease was given."""
    await world.promise(1)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += 61
    (item,) = await world.lease()
    await world.promise(1, who="ben")
    assert await world.contents.begin("a", item, LastRequest.UNPIN, None) is None


async def test_a_content_is_forgotten_only_when_it_is_gone(
    world: World,
) -> None:
    """Its number is never given to another one."""
    await world.promise(1)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += 61
    (item,) = await world.lease()
    await world.record(Outcome(None, 0.0), item)
    assert dict(await world.contents.counts()) == {ContentState.UNPINNING: 1}
    (item,) = await world.lease()
    await world.record(Outcome(Event.SEEN_ABSENT, None), item)
    assert (await world.contents.counts()) == {}
    await world.promise(1)
    (again,) = await world.lease()
    assert again.id > item.id


async def test_a_new_pin_keeps_what_was_seen_to_be_gone(world: World) -> None:
    """Pinned again between the status check and the outcome: the row stays, and is due."""
    await world.promise(1)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += 61
    (item,) = await world.lease()
    await world.promise(1)
    await world.record(Outcome(Event.SEEN_ABSENT, None), item)
    assert (await world.status(1)).state is ContentState.QUEUED
    assert await world.contents.any_due(quota(9))


async def test_what_is_sent_is_known_before(world: World) -> None:
    """A crash right after it was recorded: the next owner knows what was asked for, and when."""
    await world.promise(1)
    (item,) = await world.lease("dead")
    begun = await world.contents.begin("dead", item, LastRequest.PIN, Event.SEEN_ABSENT)
    assert begun is not None
    assert (begun.last_request, begun.requested_at) == (LastRequest.PIN, world.clock.now)
    requested_at, world.clock.now = world.clock.now, world.clock.now + LEASE + 1
    (item,) = await world.lease("next")
    assert (item.last_request, item.requested_at) == (LastRequest.PIN, requested_at)


async def test_an_orderly_end_gives_leases_back(world: World) -> None:
    """All of one owner are due at once; a period of grace goes on, and others keep theirs."""
    await world.promise(1, 2, 3)
    await world.lease("a", 2, 0)
    await world.lease("b", 1, 0)
    await world.ledger.remove("anna", cid(2))
    await world.contents.release("a")
    assert numbers(await world.lease("c")) == [1]
    world.clock.now += 61
    assert sorted(numbers(await world.lease("d"))) == [1, 2, 3]


async def test_attempts_and_status_checks_are_counted(world: World) -> None:
    """Status checks since something happened; attempts until it is pinned."""
    await world.promise(1)
    counted = []
    for outcome in (
        Outcome(None, 0.0),
        Outcome(None, 0.0, is_uncounted=True),
        Outcome(None, 0.0),
        Outcome(Event.SEEN_PINNING, 0.0, attempted=True),
        Outcome(Event.SEEN_PINNING, 0.0),
        Outcome(Event.SEEN_FAILED, 0.0, attempted=True),
        Outcome(Event.SEEN_FAILED, 0.0, is_untried=True),
        Outcome(Event.SEEN_PINNED, 0.0),
    ):
        (item,) = await world.lease()
        counted.append((item.status_checks, item.attempts))
        await world.record(outcome, item)
    assert counted == [(0, 0), (1, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 1)]
    (item,) = await world.lease()
    assert (item.status_checks, item.attempts, item.state) == (1, 0, ContentState.PINNED)


async def test_progress_is_kept_and_begins_again(world: World) -> None:
    """Blocks and bytes of the attempt under way; the next attempt starts from nothing."""
    await world.promise(1)
    (item,) = await world.lease()
    await world.contents.progress("a", item, 3, 4096)
    now = await world.status(1)
    assert (now.state, now.blocks, now.size) == (ContentState.PINNING, 3, 4096)
    await world.contents.begin("a", item, LastRequest.PIN, None)
    assert ((await world.status(1)).blocks, (await world.status(1)).size) == (0, 0)


async def test_an_outage_keeps_what_was_seen_before(world: World) -> None:
    """Where nothing was observed, replicas and peers stay, and only the reason changes."""
    await world.promise(1)
    (item,) = await world.lease()
    seen = Outcome(Event.SEEN_PINNING, 0.0, BackendStatus(TrackerStatus.PINNING, 1, 3))
    await world.record(seen, item)
    (item,) = await world.lease()
    await world.record(Outcome(None, 5.0, None, "away"), item)
    now = await world.status(1)
    assert (now.replicas, now.wanted, now.error) == (1, 3, "away")
    assert now.state is ContentState.PINNING


async def test_a_peer_that_gives_no_time_said_it_when_it_was_heard(world: World) -> None:
    """A cluster tells since when; Kubo and the embedded store do not."""
    since = datetime(2026, 11, 20, 12, tzinfo=UTC)
    peers = (Peer("cluster0", "pinned", since), Peer("kubo", "pinned"))
    await world.promise(1)
    (item,) = await world.lease()
    world.clock.now += 7
    seen = BackendStatus(TrackerStatus.PINNED, 2, 2, peers)
    await world.record(Outcome(Event.SEEN_PINNED, None, seen), item)
    record_answer = datetime.fromtimestamp(world.clock.now, UTC)
    assert [peer.at for peer in (await world.status(1)).peers] == [since, record_answer]


async def test_waiting_contents_can_be_triggered(world: World) -> None:
    """All but those in their period of grace, and those that somebody reconciles."""
    await world.promise(1, 2, 3)
    items = await world.lease()
    await world.record(Outcome(None, 300.0), *items)
    await world.ledger.remove("anna", cid(2))
    assert not await world.contents.any_due(quota(9))
    await world.contents.expedite()
    assert sorted(numbers(await world.lease())) == [1, 3]


async def test_some_contents_can_be_triggered(world: World) -> None:
    """Those that are named, and that wait; not those that nobody holds, or that somebody
    reconciles."""
    await world.promise(1, 2, 3, 4)
    items = {item.cid: item for item in await world.lease()}
    for number in (1, 2, 3):
        await world.record(Outcome(None, 300.0), items[cid(number)])
    await world.ledger.remove("anna", cid(2))
    await world.contents.trigger([items[cid(number)].id for number in (1, 2, 4)])
    assert numbers(await world.lease()) == [1]


async def test_what_is_promised_is_taken_out_of_a_queue_only_where_that_is_said(
    world: World,
) -> None:
    await world.promise(1)
    (item,) = await world.lease()
    assert await world.contents.begin("a", item, LastRequest.UNPIN, None) is None
    begun = await world.contents.begin("a", item, LastRequest.UNPIN, None, though_held=True)
    assert begun is not None
    assert begun.last_request is LastRequest.UNPIN


async def test_whoever_has_something_waiting_is_in_line(world: World) -> None:
    """Some of them are enough; who has nothing to wait for is not."""
    assert await world.contents.waiting_requestors(2) == []
    await world.promise(1, 2)
    (one,) = await world.contents.waiting_requestors(2)
    await world.promise(3, who="ben")
    assert (
        len(await world.contents.waiting_requestors(2))
        == len(set(await world.contents.waiting_requestors(9)))
        == 2
    )
    assert await world.contents.waiting_requestors(1) == [one]


# How it is read.

HOW = [
    # what is done, words of the plan, words that must not be in it
    ("any_due", "turns_due (queue=? AND at<?)", "SCAN turns"),
    ("lease", "contents_due (<expr>=? AND turn_of=? AND next_at<?)", "SCAN contents"),
    ("lease", "turns_due (queue=? AND at<?)", "SCAN turns"),
    ("lease", "pins_by_content (content=?)", "SCAN pins"),
    ("lease releases", "contents_unpinning", "SCAN contents"),
    ("record shared", "contents_due (<expr>=? AND turn_of=? AND next_at<?)", "SCAN contents"),
    ("release", "contents_leased", "SCAN"),
    ("holds", "SEARCH pins", "SCAN"),
    ("status", "SEARCH pins", "SCAN"),
    ("list", "pins_by_age", "TEMP B-TREE"),
    ("remove", "pins_by_content", "SCAN contents"),
]


@pytest.mark.parametrize(("what", "wanted", "unwanted"), HOW)
async def test_reading_uses_an_index(tmp_path: Path, what: str, wanted: str, unwanted: str) -> None:
    """None of the frequent questions walks through a table: the plan of every statement says so."""
    path = tmp_path / "ledger.sqlite"
    async with LedgerDatabase(path) as database:
        statements: list[str] = []
        values: dict[str, object] = {}
        world = World.of(database, Clock(), grace=0.0)
        contents, ledger = world.contents, world.ledger
        await world.promise(1)
        await database.write(lambda c: c.set_trace_callback(statements.append))
        database.read(lambda c: c.set_trace_callback(statements.append))
        match what:
            case "any_due":
                await contents.any_due(quota(9))
            case "lease":
                await contents.lease("a", 1.0, quota(5))
            case "lease releases":
                await contents.lease("a", 1.0, LeaseQuota(5, releases=5))
            case "release":
                await contents.release("a")
            case "record shared":
                await world.promise(1, who="ben")
                (item,) = await contents.lease("a", 1.0, quota(5))
                await world.record(AGAIN, item)
            case "holds":
                await ledger.holds("anna", cid(1))
            case "status":
                await ledger.status("anna", cid(1))
            case "remove":
                await ledger.remove("anna", cid(1))
            case "list":
                # A search has a connection of its own: the same statement, with its values.
                wanted_rows, values = conditions_of("anna", Search(limit=3))
                statements.append(
                    f"SELECT {STATUS} FROM pins JOIN contents ON id = content WHERE"
                    f" {wanted_rows} AND created_at < :cursor ORDER BY created_at DESC LIMIT :limit"
                )
        await database.write(lambda c: c.set_trace_callback(None))
    with closing(sqlite3.connect(path)) as connection:
        plan = "; ".join(
            row[3]
            for statement in statements
            if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        )
    assert wanted in plan
    assert unwanted not in plan
