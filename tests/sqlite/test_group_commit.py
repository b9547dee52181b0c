"""The writer thread of a process: groups in turn by requestor, and nothing lost at the end."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from content_gateway.concurrency.write_queue import Write
from content_gateway.errors import Overloaded
from content_gateway.sqlite.group_commit import GroupWriter

GROUP, CROWD = 64, 8


class Ledger:
    """Commits groups of notes, one at a time when `step` lets it; all by themselves else."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.have_followed: list[bool] = []
        self.is_free = threading.Event()
        self.is_free.set()

    def commit(self, group: Sequence[Write], follows: bool) -> None:
        self.have_followed.append(follows)
        assert self.is_free.wait(60)
        self.groups.append([write.note for write in group])
        for write in group:
            write.result = write.note


@asynccontextmanager
async def writer(ledger: Ledger, limit: int = 1_000) -> AsyncIterator[GroupWriter]:
    writer = GroupWriter(ledger.commit, name="writer", limit=limit, group=GROUP, crowd=CROWD)
    writer.start()
    yield writer
    await writer.close()


def _nothing() -> None:
    """The job of these writes, which the ledger above does not run."""


async def test_anothers_flood_delays_a_write_by_its_share() -> None:
    """Beside 1,000 waiting writes of one requestor, a write of another one is committed with the
    next group or the one after it; groups are small while two requestors wait."""
    ledger = Ledger()
    alone = await _commits_waited(ledger, hogs=0)
    beside = await _commits_waited(ledger, hogs=1_000)
    assert max(alone) == 1
    assert max(beside) <= 3 * max(alone)
    # But for those under way as it came, no group had more of the hog's than its share.
    mixed = [Counter(group) for group in ledger.groups if "quiet" in group]
    assert len(mixed) == 200
    assert max(group["hog"] for group in mixed[110:]) <= CROWD


async def _commits_waited(ledger: Ledger, hogs: int) -> list[int]:
    """How many groups were committed until each of a hundred writes was, its own included."""
    waited = []
    async with writer(ledger, limit=2_000) as writes:
        is_over = False

        async def hog() -> None:
            while not is_over:
                await writes.put(_nothing, "hog", "hog")

        tasks = [asyncio.create_task(hog()) for _ in range(hogs)]
        await asyncio.sleep(0)
        for _ in range(100):
            before = len(ledger.groups)
            await writes.put(_nothing, "quiet", "quiet")
            number = next(n for n, g in enumerate(ledger.groups[before:], 1) if "quiet" in g)
            waited.append(number)
        is_over = True
        await asyncio.gather(*tasks)
    return waited


async def test_who_writes_alone_fills_whole_groups() -> None:
    """A requestor that writes alone loses no throughput to the reserve for others."""
    ledger = Ledger()
    ledger.is_free.clear()
    async with writer(ledger) as writes:
        first = writes.put(_nothing, "first", "one")
        writes_of_one = [writes.put(_nothing, "note", "one") for _ in range(10 * GROUP)]
        ledger.is_free.set()
        await asyncio.gather(first, *writes_of_one)
    assert max(map(len, ledger.groups)) == GROUP


async def test_the_services_own_writes_are_never_refused() -> None:
    """A flood fills the queue; what keeps pins goes on, and so does another requestor."""
    ledger = Ledger()
    ledger.is_free.clear()
    async with writer(ledger, limit=100) as writes:
        taken = [writes.put(_nothing, "hog", "hog") for _ in range(GROUP + 100)]
        with pytest.raises(Overloaded):
            writes.put(_nothing, "hog", "hog")
        ours = [writes.put(_nothing, "ours") for _ in range(1_000)]
        other = writes.put(_nothing, "other", "other")
        ledger.is_free.set()
        await asyncio.gather(*taken, *ours, other)


async def test_a_bug_in_a_commit_is_heard_and_survived() -> None:
    """Whoever waits for that group hears of it, and the next one is committed."""

    def commit(group: Sequence[Write], follows: bool) -> None:
        for write in group:
            if write.note == "bad":
                raise ZeroDivisionError
            write.result = write.note

    writer = GroupWriter(commit, name="writer", limit=10, group=GROUP)
    writer.start()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(writer.put(_nothing, "bad"), 60)
    assert await asyncio.wait_for(writer.put(_nothing, "good"), 60) == "good"
    await writer.close()


async def test_a_commit_hears_whether_it_follows_another_at_once() -> None:
    """True only where a write was queued before the last commit was over."""
    ledger = Ledger()
    async with writer(ledger) as writes:
        await writes.put(_nothing, "first")
        await writes.put(_nothing, "second")
        ledger.is_free.clear()
        third = writes.put(_nothing, "third")
        while len(ledger.have_followed) < 3:
            await asyncio.sleep(0.001)
        fourth = writes.put(_nothing, "fourth")
        ledger.is_free.set()
        await asyncio.gather(third, fourth)
        await writes.put(_nothing, "fifth")
    assert ledger.have_followed == [False, False, False, True, False]


async def test_closing_writes_all_that_waits() -> None:
    """Also what waits for its turn, and what nobody waits for any more."""
    ledger = Ledger()
    ledger.is_free.clear()
    async with writer(ledger) as writes:
        futures = [writes.put(_nothing, str(number), "one") for number in range(500)]
        futures[200].cancel()
        ledger.is_free.set()
    assert [note for group in ledger.groups for note in group] == [str(n) for n in range(500)]
