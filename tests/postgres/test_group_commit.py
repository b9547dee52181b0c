"""Group commit: which writes are committed together, and which wait for others."""

import asyncio
from collections.abc import Sequence

from content_gateway.postgres.group_commit import GroupCommit


class Slow:
    """A database that commits when it is told so."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.ends = asyncio.Event()

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
