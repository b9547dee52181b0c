"""Fairness: nobody waits behind all that another asks, and no permit is ever lost."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from content_gateway.concurrency.contention import ALONE_AFTER
from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import Overloaded, TooManyAtOnce
from tests.virtual import run_virtually

PATIENCE = 30.0


def semaphore(permits: int, waiting: int = 100) -> FairSemaphore:
    return FairSemaphore(permits, waiting=waiting, patience=PATIENCE, detail="Too much.")


def take_all(fair: FairSemaphore, requestor: str) -> list[Permit]:
    """All that *requestor* can have, permits and places in the queue."""
    taken = []
    while fair.has_room(requestor):
        taken.append(fair.request(requestor))
    return taken


def release(permits: Sequence[Permit]) -> None:
    for permit in permits:
        permit.release()


def test_alone_one_gets_most_and_a_reserve_stays() -> None:
    """Two thirds of the permits and of the queue; who asks for more hears that we are full."""
    fair = semaphore(1_000, waiting=1_000)
    taken = take_all(fair, "greedy")
    assert fair.held_by("greedy") == 666
    assert len(taken) == 2 * 666
    with pytest.raises(Overloaded) as refused:
        fair.request("greedy")
    assert refused.value.detail == "Too much."


def test_the_share_shrinks_as_others_come() -> None:
    """Each newcomer finds a place at once, long after the first has taken all it could."""
    fair = semaphore(1_000, waiting=1_000)
    shares = []
    for number in range(6):
        taken = take_all(fair, f"greedy{number}")
        assert taken[0].holder == f"greedy{number}"
        shares.append(fair.held_by(f"greedy{number}"))
    assert shares == [666, 222, 74, 25, 8, 3]


@pytest.mark.parametrize("permits", [1, 2, 3, 4, 5])
def test_a_few_permits_are_shared_too(permits: int) -> None:
    """Where there is more than one, somebody else finds one; where there is one, it is used."""
    fair = semaphore(permits)
    take_all(fair, "greedy")
    assert fair.held_by("greedy") == max(1, 2 * permits // 3)
    assert (fair.request("other").holder == "other") == (permits > 1)


async def test_those_who_wait_are_served_in_turn() -> None:
    """One of each requestor, in the order they came, and not all of the first one's."""
    fair = semaphore(1)
    first = fair.request("a")
    served: list[str] = []

    async def work(requestor: str) -> None:
        async with fair.request(requestor):
            served.append(requestor)

    tasks = [asyncio.create_task(work(name)) for name in ("a", "a", "a", "b", "b", "c")]
    await asyncio.sleep(0)
    first.release()
    await asyncio.gather(*tasks)
    assert served == ["a", "b", "c", "a", "b", "a"]
    assert fair.free == 1


async def test_impatience_is_overload() -> None:
    """After `patience` it is Overloaded, and its place in the queue is free."""
    fair = FairSemaphore(1, waiting=5, patience=0.01, detail="Too much.")
    first = fair.request("a")
    late = fair.request("b")
    with pytest.raises(Overloaded):
        await late.granted()
    assert not fair.is_awaited
    first.release()
    assert fair.free == 1


async def test_who_joins_is_never_refused_and_waits_in_its_own_turn() -> None:
    """What another asked for, behind a hundred other things, comes when it is our turn."""
    fair = semaphore(1, waiting=400)
    held = fair.request("greedy")
    queued = take_all(fair, "greedy")
    last = queued[-1]
    last.join("guest")
    last.join("guest")  # once is enough
    held.release()
    queued[0].release()
    assert last.holder == "guest"
    last.join("another")  # it is under way: nothing to wait for
    release(queued)
    assert fair.free == 1
    assert not fair.is_awaited


async def test_joining_a_full_queue_changes_nothing() -> None:
    """A queue that is full has no place for the joining requestor: the order stays."""
    fair = semaphore(1, waiting=1)
    held, waiting = fair.request("a"), fair.request("b")
    waiting.join("c")
    held.release()
    assert waiting.holder == "b"


def test_in_a_crowd_one_has_less() -> None:
    """While another has asked lately; alone again, one has its whole share."""

    async def run() -> None:
        fair = FairSemaphore(100, waiting=100, detail="Too much.", crowd=4)
        alone = [fair.request("a") for _ in range(90)]
        assert fair.held_by("a") == 66
        fair.request("", is_ours=True).release()  # the service itself is no other
        alone[0].release()
        assert fair.held_by("a") == 66
        other = fair.request("b")
        release(alone[:66])
        assert fair.held_by("a") == 4
        other.release()
        fair.request("a").release()  # of those who asked one after the other, the last
        await asyncio.sleep(ALONE_AFTER)
        alone[66].release()
        assert fair.held_by("a") > 4
        release(alone)
        assert fair.free == 100

    run_virtually(run())


def test_our_own_work_is_never_refused() -> None:
    """It is queued like a requestor's."""
    fair = semaphore(1, waiting=0)
    held = fair.request("a")
    ours = fair.request("", is_ours=True)
    assert ours.holder is None
    held.release()
    assert ours.holder == ""


async def test_one_cancelled_in_the_moment_of_its_turn_gives_it_back() -> None:
    """A permit that was granted in the same turn is released."""
    fair = semaphore(1)
    held = fair.request("a")
    waiter = asyncio.create_task(fair.request("b").granted())
    await asyncio.sleep(0)
    held.release()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert fair.free == 1


class Connections:
    """Several requestors at work with one semaphore, as a property test drives them."""

    def __init__(self, permits: int, waiting: int) -> None:
        self.permits, self.waiting = permits, waiting
        self.fair = semaphore(permits, waiting)
        self.work: list[tuple[Permit, asyncio.Task[None], asyncio.Event]] = []
        self.overtaken: dict[Permit, Counter[str]] = {}

    async def act(self, action: str, number: int, requestor: str) -> None:
        before = {permit for permit, _, _ in self.work if permit.holder is None}
        if action == "ask":
            try:
                permit = self.fair.request(requestor)
            except Overloaded:
                assert not self.fair.has_room(requestor)
                return
            done = asyncio.Event()
            self.work.append((permit, asyncio.create_task(_hold(permit, done)), done))
            if permit.holder is None and not self.fair.held_by(requestor):
                self.overtaken[permit] = Counter()
        elif self.work:
            permit, task, done = self.work[number % len(self.work)]
            if action == "cancel":
                task.cancel()
                permit.release()  # a task that never began has no way to do so
            elif action == "join":
                permit.join(requestor)
            else:
                done.set()
        for _ in range(4):
            await asyncio.sleep(0)
        self.work = [one for one in self.work if not one[1].done()]
        self.check(before)

    def check(self, before: set[Permit]) -> None:
        fair = self.fair
        held = Counter(permit.holder for permit, _, _ in self.work if permit.holder is not None)
        waiting = [permit for permit, _, _ in self.work if permit.holder is None]
        assert fair.free == self.permits - sum(held.values())
        assert all(fair.held_by(requestor) == number for requestor, number in held.items())
        assert fair.is_awaited == bool(waiting)
        # Nobody waits while somebody without a permit could have one.
        if fair.free:
            assert all(fair.held_by(r) for permit in waiting for r in permit.queued_by)
        # Who has nothing is overtaken by each other once at most, since its own last turn.
        for permit in before - set(waiting):
            for other, seen in self.overtaken.items():
                if other in before and other in waiting and permit.holder is not None:
                    if permit.holder == other.queued_by[0]:
                        seen.clear()
                    else:
                        seen[permit.holder] += 1
        for permit in waiting:
            owner = permit.queued_by[0]
            if permit in self.overtaken and not fair.held_by(owner):
                assert all(count <= 1 for count in self.overtaken[permit].values())

    async def end(self) -> None:
        for _, task, _ in self.work:
            task.cancel()
        for permit, _, _ in self.work:
            permit.release()
        await asyncio.gather(*(task for _, task, _ in self.work), return_exceptions=True)
        assert self.fair.free == self.permits
        assert not self.fair.is_awaited
        # And the queue has room for as many as in the beginning.
        fresh = semaphore(self.permits, self.waiting)
        assert len(take_all(self.fair, "new")) == len(take_all(fresh, "new"))


async def _hold(permit: Permit, done: asyncio.Event) -> None:
    async with permit:
        await done.wait()


ACTIONS = st.sampled_from(["ask", "ask", "ask", "finish", "finish", "cancel", "join"])
STEPS = st.lists(st.tuples(ACTIONS, st.integers(0, 30), st.sampled_from("abcd")), max_size=60)


@given(permits=st.integers(1, 6), waiting=st.integers(0, 12), steps=STEPS)
@settings(max_examples=150, deadline=None)
@example(
    permits=1,
    waiting=5,
    steps=[("ask", 0, who) for who in "acab"]
    + [("finish", 0, "a"), ("ask", 0, "a"), ("ask", 0, "b")]
    + [("finish", 0, "a")] * 3,
)
def test_no_permit_is_lost_and_nobody_is_passed_over(
    permits: int, waiting: int, steps: list[tuple[str, int, str]]
) -> None:
    """Whoever asks, finishes, joins or is cancelled, and in which order ever."""

    async def run() -> None:
        crowd = Connections(permits, waiting)
        for step in steps:
            await crowd.act(*step)
        await crowd.end()

    run_virtually(run())


@pytest.mark.parametrize("greedy", [1, 3, 5])
@pytest.mark.parametrize(
    "hang", [lambda _: 10.0, lambda number: 0.01 + number % 7], ids=["hanging", "busy"]
)
def test_the_tail_of_a_quiet_one_beside_greedy_ones(
    greedy: int, hang: Callable[[int], float]
) -> None:
    """1,000 requests of each greedy one that hold their permits to the deadline: the 99th
    percentile of another's is what it is alone."""
    alone = run_virtually(_tail(0, hang))
    beside = run_virtually(_tail(greedy, hang))
    assert beside <= 3 * alone


async def _tail(greedy: int, hang: Callable[[int], float]) -> float:
    """The 99th percentile of a quiet requestor's seconds, beside so many *greedy* ones."""
    fair = semaphore(1_000, waiting=1_000)
    loop = asyncio.get_running_loop()

    async def one(requestor: str, seconds: float) -> float:
        begun = loop.time()
        async with fair.request(requestor):
            await asyncio.sleep(seconds)
        return loop.time() - begun

    async def flood(requestor: str) -> None:
        number = 0
        while True:  # as much as is taken, at all times
            while fair.has_room(requestor):
                number += 1
                tasks.add(task := asyncio.create_task(one(requestor, hang(number))))
                task.add_done_callback(tasks.discard)
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)

    tasks: set[asyncio.Task[float]] = set()
    floods = [asyncio.create_task(flood(f"greedy{number}")) for number in range(greedy)]
    await asyncio.sleep(1)
    took = sorted([await one("quiet", 0.1) for _ in range(100)])
    for task in [*floods, *tasks]:
        task.cancel()
    await asyncio.gather(*floods, *tasks, return_exceptions=True)
    return took[math.ceil(0.99 * len(took)) - 1]


def limited(permits: int = 100, waiting: int = 100) -> FairSemaphore:
    """Of which "few" may have three, and everybody else their share."""
    return FairSemaphore(
        permits,
        waiting=waiting,
        patience=PATIENCE,
        detail="Too much.",
        limit_of=lambda who: 3 if who == "few" else 0,
    )


def test_a_limit_of_its_own_is_told_apart_from_what_there_is() -> None:
    """Who has reached it has as many wait, and hears that it is its own limit; who finds no place
    though its limit is not reached hears that there is no room."""
    fair = limited()
    taken = [fair.request("few") for _ in range(6)]
    assert fair.held_by("few") == 3
    with pytest.raises(TooManyAtOnce):
        fair.request("few")
    assert fair.request("other").holder == "other"
    release(taken)
    crowded = limited(permits=2, waiting=2)
    for number in range(4):
        crowded.request(f"other {number}")
    with pytest.raises(Overloaded):
        crowded.request("few")


def test_who_waits_too_long_hears_why() -> None:
    """By its own limit alone; where another wants the same and finds no place, there is no room."""

    async def run() -> None:
        fair = limited()
        for _ in range(3):
            fair.request("few")
        with pytest.raises(TooManyAtOnce):
            await fair.request("few").granted()
        crowded = limited(permits=5, waiting=1)
        for who in ("few", "few", "few", "other", "other too"):
            crowded.request(who)
        shared = crowded.request("few")
        shared.join("another")
        with pytest.raises(Overloaded):
            await shared.granted()

    run_virtually(run())
