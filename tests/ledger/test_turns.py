"""Leases in turn by requestor: a requestor with many waiting contents does not delay others."""

from collections import Counter
from collections.abc import Sequence

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.content_state import (
    Event,
    LeaseQuota,
    Outcome,
    Queue,
    RemainingQuota,
    WorkItem,
    fair_share,
    shared_by_all,
)
from tests.ledgers import LEASE, Clock, World, cid, numbers, quota

AGAIN = Outcome(Event.SEEN_PINNING, 5.0, attempted=True)


async def lease(world: World, number: int, held: Sequence[WorkItem] = ()) -> list[WorkItem]:
    """Leases of *number* first tries or retries, fair to whoever has what *held* says."""
    quota = LeaseQuota(
        number, number, number, number, held=[(item.requestor, item.queue) for item in held]
    )
    return list(await world.contents.lease("a", LEASE, quota))


async def test_a_newcomer_is_next(world: World) -> None:
    """One content of ben waits behind one of anna's at most, not behind all hundred."""
    await world.promise(*range(100))
    served = []
    for turn in range(4):
        if turn == 1:
            await world.promise(500, who="ben")
        world.clock.now += 0.001
        served += numbers(await world.lease(first_tries=1, retries=0))
    assert [number for number in served if number != 500] == [0, 1, 2]
    assert 500 in served[1:3]


async def test_all_have_the_same_number_of_turns(world: World) -> None:
    """Whatever each has waiting, and in calls of any size, until it has none left."""
    for number, who in enumerate(("anna", "ben", "carla")):
        await world.promise(*range(number * 1000, number * 1000 + 20 * (number + 1)), who=who)
    served: Counter[int] = Counter()
    for size in (1, 2, 7, 3, 20, 9, 18):
        world.clock.now += 0.01
        items = await world.lease(first_tries=size, retries=0)
        assert len(items) == size
        served.update(number // 1000 for number in numbers(items))
    assert served == {0: 20, 1: 20, 2: 20}
    rest = numbers(await world.contents.lease("a", LEASE, quota(100)))
    assert Counter(number // 1000 for number in rest) == {1: 20, 2: 40}


@pytest.mark.parametrize("workers", range(1, 65))
def test_one_alone_has_all_its_workers_and_others_find_room(workers: int) -> None:
    """As many as the policy says for one; whoever comes then gets a third of that at once (with few
    workers or an odd number a little less), and the one after that still finds a worker."""
    everybody = shared_by_all(workers)
    given = []
    free = everybody
    for _ in range(2):
        held = 0
        while fair_share(free, held):
            held, free = held + 1, free - 1
        given.append(held)
    assert given[0] == workers
    assert given[1] * (3 if workers >= 8 and workers % 2 == 0 else 5) >= workers
    assert free >= 1 or workers < 4


async def test_a_requestor_whose_share_is_used_up_is_passed_over(world: World) -> None:
    """Its work in progress counts, of the queue and of all queues; `any_due` knows it as well."""
    await world.promise(*range(100))
    first = await lease(world, 12)
    assert len(first) == 8
    used_up = LeaseQuota(4, 4, 4, 4, held=[(item.requestor, item.queue) for item in first])
    assert not await world.contents.any_due(used_up)
    assert await world.contents.lease("a", LEASE, used_up) == []
    await world.promise(*range(500, 600), who="ben")
    assert await world.contents.any_due(used_up)
    items = await world.contents.lease("a", LEASE, used_up)
    assert len(items) == 3
    assert all(number >= 500 for number in numbers(items))


async def test_retries_are_leased_in_turn_too(world: World) -> None:
    """Five hundred that were tried before do not stand before the one of somebody else."""
    await world.promise(*range(500))
    items = await world.contents.lease("a", LEASE, quota(500))
    await world.record(AGAIN, *items)
    await world.promise(900, who="ben")
    (item,) = await world.contents.lease("a", LEASE, quota(500))
    await world.record(AGAIN, item)
    world.clock.now += 5.1
    found = numbers(await world.contents.lease("a", LEASE, LeaseQuota(2, retries=2)))
    assert 900 in found


async def test_a_shared_content_waits_in_the_turn_that_comes_first(world: World) -> None:
    """Ben pins the last content of anna's queue: it is leased in ben's turn. The other way round it
    is not moved."""
    await world.promise(*range(100))
    await world.promise(99, who="ben")
    assert 99 in numbers(await world.lease(first_tries=2, retries=0))
    await world.promise(700, who="ben")
    await world.promise(700)
    assert 700 in numbers(await world.lease(first_tries=2, retries=0))


async def test_a_shared_content_is_not_held_up_by_a_flood_that_comes_later(world: World) -> None:
    """After each try it is seen again who of its holders comes first."""
    await world.promise(1)
    await world.promise(1, who="ben")
    (item,) = await lease(world, 5)
    assert item.is_shared
    await world.promise(*range(100, 200))
    flood = await world.contents.lease("a", LEASE, quota(100))
    await world.record(Outcome(None, 4.0), *flood)
    await world.record(AGAIN, item)
    world.clock.now += 5.1
    assert 1 in numbers(await world.contents.lease("a", LEASE, LeaseQuota(2, retries=2)))


async def test_a_removal_leaves_no_turn_behind(world: World) -> None:
    """What only ben holds now is not leased in anna's turn."""
    await world.promise(1)
    await world.promise(1, who="ben")
    await world.ledger.remove("anna", cid(1))
    await world.promise(*range(100, 200))
    await world.promise(300, who="carla")
    found = numbers(await world.lease(first_tries=3, retries=0))
    assert sorted(found) == [1, 100, 300]


async def test_releasing_and_pinning_again_gains_no_turns(world: World) -> None:
    """What is pinned again is a first try again, and still one in anna's own queue."""
    await world.promise(*range(50))
    for _ in range(3):
        items = await world.contents.lease("a", LEASE, quota(50))
        await world.record(AGAIN, *items)
        for number in range(50):
            await world.ledger.remove("anna", cid(number))
        await world.promise(*range(50))
        world.clock.now += 1
    await world.promise(900, who="ben")
    assert 900 in numbers(await world.lease(first_tries=2, retries=0))


async def test_queues_that_turn_out_to_be_empty_are_passed_over(
    database: LedgerDatabase, clock: Clock
) -> None:
    """The queues of a thousand requestors whose contents are pinned do not hide the one that waits,
    and their rows are deleted on the way."""
    world = World.of(database, clock)
    for number in range(1_000):
        await world.promise(number, who=f"who {number}")
    while items := await world.contents.lease("a", LEASE, quota(1_000)):
        await world.record(Outcome(Event.SEEN_PINNED, None), *items)
    world.clock.now += LEASE + 1
    await world.promise(5_000, who="ben")
    assert numbers(await world.contents.lease("a", LEASE, LeaseQuota(5, 5, 5, 5))) == [5_000]
    count = database.read(lambda c: c.execute("SELECT count(*) FROM turns").fetchone())
    assert count == (1,)


async def test_whatever_waits_stands_in_the_line(database: LedgerDatabase, clock: Clock) -> None:
    """After pins, outcomes, releases and removals no content is due before its requestor's turn."""
    world = World.of(database, clock)
    for number in range(60):
        await world.promise(number % 40, who=f"who {number % 7}")
        if number % 3 == 0:
            items = await lease(world, 5)
            ends = [Outcome(None, 0.5), AGAIN, Outcome(Event.SEEN_PINNED, None)]
            await world.contents.record_outcomes("a", list(zip(items, ends, strict=False)))
            await world.contents.renew("a", items[3:], LEASE * 2)
        if number % 5 == 0:
            await world.ledger.remove(f"who {number % 7}", cid(number % 40))
        if number % 20 == 19:
            await world.contents.release("a")
            await world.contents.expedite()
        world.clock.now += 0.4
        late = database.read(
            lambda c: c.execute(
                "SELECT contents.id FROM contents LEFT JOIN turns"
                " ON queue = (attempts + status_checks > 0) + (attempts > 4)"
                " AND requestor = turn_of"
                " WHERE next_at IS NOT NULL AND (at IS NULL OR at > 1000 * max(next_at, ?))",
                (round(world.clock.now * 1000),),
            ).fetchall()
        )
        assert late == []


def test_room_counts_what_was_given() -> None:
    """In all, in the queue, and by requestor; without fairness one may have it all."""
    room = RemainingQuota(LeaseQuota(6, 6, 3, 1))
    assert (room.of(Queue.FIRST_TRY, 1), room.of(Queue.RETRY, 1)) == (6, 3)
    room.taken(Queue.SLOW, 1)
    assert (room.of(Queue.SLOW, 1), room.left) == (0, 5)
    fair = RemainingQuota(LeaseQuota(6, 6, 3, 1, held=[]))
    assert (fair.of(Queue.FIRST_TRY, 1), fair.of(Queue.RETRY, 1)) == (4, 2)
