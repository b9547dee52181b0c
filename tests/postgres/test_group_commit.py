"""Group commit: which writes are committed together, which wait for others, and how long."""

import asyncio
from collections.abc import Sequence

from content_gateway.errors import StorageUnavailable
from content_gateway.postgres.group_commit import GroupCommit


class Slow:
    """A database that commits when it is told so."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.ends = asyncio.Event()

    @property
    def begun(self) -> list[int]:
        """What was to be committed so far."""
        return [item for group in self.groups for item in group]

    async def commit(self, items: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(items))
        await self.ends.wait()
        return items


async def turns() -> None:
    """Let whatever can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_second_group_begins_when_as_many_wait_as_are_under_way() -> None:
    """Of the same requestor too; a third one waits for the end of one of them."""
    database, writes = Slow(), GroupCommit(at_once=2)
    commit = database.commit  # one object: of one kind

    def write(*items: int) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(writes.write(commit, item, "anna")) for item in items]

    tasks = write(1, 2, 3)
    await turns()
    tasks += write(4, 5)
    await turns()
    assert database.groups == [[1, 2, 3]]
    tasks += write(6)
    await turns()
    assert database.groups == [[1, 2, 3], [4, 5, 6]]
    tasks += write(*range(7, 20))
    await turns()
    assert len(database.groups) == 2
    database.ends.set()
    assert await asyncio.gather(*tasks) == list(range(1, 20))
    assert database.groups[2:] == [[*range(7, 20)]]
    await writes.close()


async def test_what_a_requestor_wrote_takes_effect_in_its_order() -> None:
    """A write of another kind waits for those before it; one of somebody else does not."""
    additions, removals = Slow(), Slow()
    writes = GroupCommit(at_once=3)
    add, remove = additions.commit, removals.commit
    tasks = [asyncio.create_task(writes.write(add, 1, "anna"))]
    await turns()
    tasks.append(asyncio.create_task(writes.write(remove, 2, "ben")))
    await turns()
    assert removals.groups == [[2]]
    tasks += [asyncio.create_task(writes.write(remove, item, "anna")) for item in (3, 4)]
    await turns()
    assert removals.groups == [[2]]
    additions.ends.set()
    await turns()
    assert removals.groups == [[2], [3, 4]]
    removals.ends.set()
    assert await asyncio.gather(*tasks) == [1, 2, 3, 4]
    await writes.close()


async def test_a_write_that_waits_too_long_is_refused_and_not_begun() -> None:
    """Behind groups that take long; once they have ended, it is not committed behind its caller's
    back, and what comes later is."""
    database, writes = Slow(), GroupCommit(patience=0.2, at_once=1)
    commit = database.commit
    waiting = [
        asyncio.create_task(writes.write(commit, number, f"requestor {number % 2}"))
        for number in range(4)
    ]
    while not database.begun:
        await asyncio.sleep(0)
    begun = list(database.begun)
    late = [asyncio.create_task(writes.write(commit, number, "late")) for number in range(4, 8)]
    refused = await asyncio.gather(*waiting, *late, return_exceptions=True)
    assert all(isinstance(one, StorageUnavailable) for one in refused)
    database.ends.set()
    assert await writes.write(commit, 9, "late") == 9
    assert database.begun == [*begun, 9]
    assert writes.unanswered == 0
    await writes.close()


async def test_a_caller_who_is_cancelled_stops_no_write() -> None:
    """It is committed all the same."""
    database, writes = Slow(), GroupCommit(at_once=1)
    first = asyncio.create_task(writes.write(database.commit, 1, "anna"))
    while not database.begun:
        await asyncio.sleep(0)
    second = asyncio.create_task(writes.write(database.commit, 2, "ben"))
    await asyncio.sleep(0)
    second.cancel()
    database.ends.set()
    assert await first == 1
    await writes.close()
    assert database.begun == [1, 2]
