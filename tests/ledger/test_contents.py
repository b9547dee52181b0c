"""What is owed, in SQLite: leases that one worker has at a time, and outcomes of their holders."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from content_gateway.ledger.contents import SqliteWorkQueue
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.pin_rows import STATUS, conditions_of
from content_gateway.ledger.pins import SqlitePins
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    LastRequest,
    LeaseQuota,
    Outcome,
    Peer,
    TrackerStatus,
    WorkItem,
)
from content_gateway.model.pins import NO_LABEL, PinStatus, Search
from tests.ledgers import Clock, cid, numbers, quota

LEASE = 30.0
PINNED = Outcome(Event.SEEN_PINNED, None, BackendStatus(TrackerStatus.PINNED, 1))
AGAIN = Outcome(Event.SEEN_PINNING, 5.0)


async def promise(ledger: SqlitePins, *numbers: int, who: str = "anna") -> None:
    for number in numbers:
        await ledger.add(who, cid(number), str(cid(number)), NO_LABEL)


def status(ledger: SqlitePins, number: int) -> PinStatus:
    found = ledger.status("anna", cid(number))
    assert found is not None
    return found


async def lease(
    contents: SqliteWorkQueue, owner: str = "a", first_tries: int = 100, retries: int = 100
) -> Sequence[WorkItem]:
    return await contents.lease(
        owner, LEASE, LeaseQuota(first_tries + retries, first_tries + retries, retries, retries)
    )


# Leases.


async def test_a_content_is_leased_once(ledger: SqlitePins, contents: SqliteWorkQueue) -> None:
    """Twenty owners that ask at once share what is due, and nothing twice."""
    await promise(ledger, *range(100))
    parts = await asyncio.gather(*(lease(contents, f"owner {n}", 3, 3) for n in range(20)))
    found = [number for part in parts for number in numbers(part)]
    assert sorted(found) == list(range(100))
    assert not contents.any_due(quota(9))


async def test_a_lease_runs_out(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Whoever died with it is followed by another, and not before."""
    await promise(ledger, 1)
    await lease(contents, "dead")
    clock.now += LEASE - 0.1
    assert await lease(contents, "next") == []
    clock.now += 0.2
    assert numbers(await lease(contents, "next")) == [1]


async def test_a_lease_is_extended(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """As long as its owner says so; and by nobody else."""
    await promise(ledger, 1)
    items = await lease(contents, "a")
    for _ in range(5):
        clock.now += LEASE - 1
        await contents.renew("a", items, LEASE)
        assert await lease(contents, "b") == []
    clock.now += LEASE + 1
    await contents.renew("b", items, LEASE)
    assert contents.any_due(quota(9))


async def test_first_tries_and_retries_have_shares(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """What was tried before never takes the room of what was not; its own it leaves, if it must."""
    await promise(ledger, *range(20))
    items = await lease(contents)
    await contents.record_outcomes("a", [(item, AGAIN) for item in items])
    clock.now += 10
    await promise(ledger, *range(100, 120))
    found = numbers(await lease(contents, "a", 5, 5))
    assert len([n for n in found if n < 100]) == 5
    assert len([n for n in found if n >= 100]) == 5
    rest = numbers(await lease(contents, "a", 5, 100))
    assert sorted(rest) == sorted({*range(20), *range(100, 120)} - set(found))
    assert await lease(contents, "a", 5, 100) == []


async def test_retries_leave_their_room_to_first_tries(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """With nothing to retry all workers try for the first time; the other way round they do not."""
    await promise(ledger, *range(20))
    items = await lease(contents, "a", 5, 5)
    assert len(items) == 10
    await contents.record_outcomes("a", [(item, Outcome(Event.SEEN_QUEUED, 0.0)) for item in items])
    await contents.record_outcomes(
        "b", [(item, PINNED) for item in await lease(contents, "b", 10, 0)]
    )
    assert len(await lease(contents, "c", 100, 4)) == 4


async def test_releases_have_a_queue_of_their_own(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """What nobody holds can be leased where nothing may be taken in."""
    await promise(ledger, 1, 2)
    await ledger.remove("anna", cid(1))
    clock.now += 61
    (item,) = await contents.lease("a", LEASE, LeaseQuota(10, releases=10))
    assert (item.cid, item.is_held) == (cid(1), False)
    assert numbers(await contents.lease("a", LEASE, LeaseQuota(10, releases=10))) == []
    assert numbers(await lease(contents)) == [2]


async def test_the_oldest_is_tended_first(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """In the order in which they became due."""
    for number in (5, 3, 9):
        await promise(ledger, number)
        clock.now += 1
    assert [numbers(await lease(contents, "a", 1, 0)) for _ in range(3)] == [[5], [3], [9]]


# Outcomes.


async def test_a_lost_lease_writes_nothing(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Who slept through it neither sends nor settles, and does not disturb who came after."""
    await promise(ledger, 1)
    (old,) = await lease(contents, "slow")
    clock.now += LEASE + 1
    (new,) = await lease(contents, "quick")
    assert await contents.begin("slow", old, LastRequest.PIN, None) is None
    await contents.record_outcomes("slow", [(old, PINNED)])
    await contents.progress("slow", old, 1, 1)
    await contents.release("slow")
    assert status(ledger, 1).state is ContentState.QUEUED
    assert await lease(contents, "third") == []
    begun = await contents.begin("quick", new, LastRequest.PIN, None)
    assert begun is not None
    await contents.record_outcomes("quick", [(begun, PINNED)])
    assert status(ledger, 1).state is ContentState.PINNED


async def test_an_older_generation_stores_nothing(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """Released and pinned again meanwhile: the outcome is dropped, and it is due at once."""
    await promise(ledger, 1)
    (item,) = await lease(contents)
    begun = await contents.begin("a", item, LastRequest.PIN, None)
    assert begun is not None
    await ledger.remove("anna", cid(1))
    await promise(ledger, 1)
    assert not contents.any_due(quota(9))  # the worker still has its lease
    assert await contents.begin("a", item, LastRequest.PIN, None) is None
    await contents.record_outcomes("a", [(begun, PINNED)])
    assert status(ledger, 1).state is ContentState.QUEUED
    (again,) = await lease(contents, "b")
    assert again.generation > begun.generation
    assert (again.last_request, again.is_held, again.attempts) == (LastRequest.PIN, True, 0)


async def test_a_content_let_go_of_under_a_lease_keeps_its_grace_period(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """The end of the lease does not end it."""
    await promise(ledger, 1)
    (item,) = await lease(contents)
    await ledger.remove("anna", cid(1))
    await contents.record_outcomes("a", [(item, PINNED)])
    clock.now += 59.9
    assert await lease(contents) == []
    clock.now += 0.2
    (item,) = await lease(contents)
    assert item.state is ContentState.UNPINNING


async def test_whether_somebody_holds_it_is_counted_again(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """A request to unpin is not recorded where somebody came back after the lease was given."""
    await promise(ledger, 1)
    await ledger.remove("anna", cid(1))
    clock.now += 61
    (item,) = await lease(contents)
    await promise(ledger, 1, who="ben")
    assert await contents.begin("a", item, LastRequest.UNPIN, None) is None


async def test_a_content_is_forgotten_only_when_it_is_gone(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock, database: LedgerDatabase
) -> None:
    """Its number is never given to another one."""
    await promise(ledger, 1)
    await ledger.remove("anna", cid(1))
    clock.now += 61
    (item,) = await lease(contents)
    await contents.record_outcomes("a", [(item, Outcome(None, 0.0))])
    assert dict(await contents.counts()) == {ContentState.UNPINNING: 1}
    (item,) = await lease(contents)
    await contents.record_outcomes("a", [(item, Outcome(Event.SEEN_ABSENT, None))])
    assert (await contents.counts()) == {}
    await promise(ledger, 1)
    (again,) = await lease(contents)
    assert again.id > item.id


async def test_a_new_pin_keeps_what_was_seen_to_be_gone(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Pinned again between the status check and the outcome: the row stays, and is due."""
    await promise(ledger, 1)
    await ledger.remove("anna", cid(1))
    clock.now += 61
    (item,) = await lease(contents)
    await promise(ledger, 1)
    await contents.record_outcomes("a", [(item, Outcome(Event.SEEN_ABSENT, None))])
    assert status(ledger, 1).state is ContentState.QUEUED
    assert contents.any_due(quota(9))


async def test_what_is_sent_is_known_before(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """A crash right after it was recorded: the next owner knows what was asked for, and when."""
    await promise(ledger, 1)
    (item,) = await lease(contents, "dead")
    begun = await contents.begin("dead", item, LastRequest.PIN, Event.SEEN_ABSENT)
    assert begun is not None
    assert (begun.last_request, begun.requested_at) == (LastRequest.PIN, clock.now)
    requested_at, clock.now = clock.now, clock.now + LEASE + 1
    (item,) = await lease(contents, "next")
    assert (item.last_request, item.requested_at) == (LastRequest.PIN, requested_at)


async def test_an_orderly_end_gives_leases_back(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """All of one owner are due at once; a period of grace goes on, and others keep theirs."""
    await promise(ledger, 1, 2, 3)
    await lease(contents, "a", 2, 0)
    await lease(contents, "b", 1, 0)
    await ledger.remove("anna", cid(2))
    await contents.release("a")
    assert numbers(await lease(contents, "c")) == [1]
    clock.now += 61
    assert sorted(numbers(await lease(contents, "d"))) == [1, 2, 3]


async def test_attempts_and_looks_are_counted(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """Looks since something happened; attempts until it is pinned."""
    await promise(ledger, 1)
    told = []
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
        (item,) = await lease(contents)
        told.append((item.status_checks, item.attempts))
        await contents.record_outcomes("a", [(item, outcome)])
    assert told == [(0, 0), (1, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 1)]
    (item,) = await lease(contents)
    assert (item.status_checks, item.attempts, item.state) == (1, 0, ContentState.PINNED)


async def test_progress_is_kept_and_begins_again(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """Blocks and bytes of the attempt under way; the next attempt starts from nothing."""
    await promise(ledger, 1)
    (item,) = await lease(contents)
    await contents.progress("a", item, 3, 4096)
    now = status(ledger, 1)
    assert (now.state, now.blocks, now.size) == (ContentState.PINNING, 3, 4096)
    await contents.begin("a", item, LastRequest.PIN, None)
    assert (status(ledger, 1).blocks, status(ledger, 1).size) == (0, 0)


async def test_an_outage_keeps_what_was_seen_before(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """Where nothing was observed, replicas and peers stay, and only the reason changes."""
    await promise(ledger, 1)
    (item,) = await lease(contents)
    seen = Outcome(Event.SEEN_PINNING, 0.0, BackendStatus(TrackerStatus.PINNING, 1, 3))
    await contents.record_outcomes("a", [(item, seen)])
    (item,) = await lease(contents)
    await contents.record_outcomes("a", [(item, Outcome(None, 5.0, None, "away"))])
    now = status(ledger, 1)
    assert (now.replicas, now.wanted, now.error) == (1, 3, "away")
    assert now.state is ContentState.PINNING


async def test_a_peer_that_gives_no_time_said_it_when_it_was_heard(
    ledger: SqlitePins, contents: SqliteWorkQueue, clock: Clock
) -> None:
    """A cluster tells since when; Kubo and the embedded store do not."""
    since = datetime(2026, 11, 20, 12, tzinfo=UTC)
    peers = (Peer("cluster0", "pinned", since), Peer("kubo", "pinned"))
    await promise(ledger, 1)
    (item,) = await lease(contents)
    clock.now += 7
    seen = BackendStatus(TrackerStatus.PINNED, 2, 2, peers)
    await contents.record_outcomes("a", [(item, Outcome(Event.SEEN_PINNED, None, seen))])
    record_answer = datetime.fromtimestamp(clock.now, UTC)
    assert [peer.at for peer in status(ledger, 1).peers] == [since, record_answer]


async def test_waiting_contents_can_be_hastened(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """All but those in their period of grace, and those that somebody reconciles."""
    await promise(ledger, 1, 2, 3)
    items = await lease(contents)
    await contents.record_outcomes("a", [(item, Outcome(None, 300.0)) for item in items])
    await ledger.remove("anna", cid(2))
    assert not contents.any_due(quota(9))
    await contents.expedite()
    assert sorted(numbers(await lease(contents))) == [1, 3]


async def test_some_contents_can_be_hastened(ledger: SqlitePins, contents: SqliteWorkQueue) -> None:
    """Those that are named, and that wait; not those that nobody holds, or that somebody
    reconciles."""
    await promise(ledger, 1, 2, 3, 4)
    items = {item.cid: item for item in await lease(contents)}
    for number in (1, 2, 3):
        await contents.record_outcomes("a", [(items[cid(number)], Outcome(None, 300.0))])
    await ledger.remove("anna", cid(2))
    await contents.trigger([items[cid(number)].id for number in (1, 2, 4)])
    assert numbers(await lease(contents)) == [1]


async def test_what_is_promised_is_taken_out_of_a_queue_only_where_that_is_said(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """An unpin of what somebody holds is refused otherwise."""
    await promise(ledger, 1)
    (item,) = await lease(contents)
    assert await contents.begin("a", item, LastRequest.UNPIN, None) is None
    begun = await contents.begin("a", item, LastRequest.UNPIN, None, though_held=True)
    assert begun is not None
    assert begun.last_request is LastRequest.UNPIN


async def test_whoever_has_something_waiting_is_in_line(
    ledger: SqlitePins, contents: SqliteWorkQueue
) -> None:
    """Some of them are enough; who has nothing to wait for is not."""
    assert contents.waiting_requestors(2) == []
    await promise(ledger, 1, 2)
    (one,) = contents.waiting_requestors(2)
    await promise(ledger, 3, who="ben")
    assert len(contents.waiting_requestors(2)) == len(set(contents.waiting_requestors(9))) == 2
    assert contents.waiting_requestors(1) == [one]


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
        contents, ledger = SqliteWorkQueue(database), SqlitePins(database, grace=0.0)
        await promise(ledger, 1)
        await database.write(lambda c: c.set_trace_callback(statements.append))
        database.read(lambda c: c.set_trace_callback(statements.append))
        match what:
            case "any_due":
                contents.any_due(quota(9))
            case "lease":
                await contents.lease("a", 1.0, quota(5))
            case "lease releases":
                await contents.lease("a", 1.0, LeaseQuota(5, releases=5))
            case "release":
                await contents.release("a")
            case "record shared":
                await promise(ledger, 1, who="ben")
                (item,) = await contents.lease("a", 1.0, quota(5))
                await contents.record_outcomes("a", [(item, AGAIN)])
            case "holds":
                ledger.holds("anna", cid(1))
            case "status":
                ledger.status("anna", cid(1))
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
