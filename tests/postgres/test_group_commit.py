"""Group commit: no write waits longer than its deadline, however long the groups before it take."""

import asyncio
from collections.abc import Sequence

from content_gateway.errors import StorageUnavailable
from content_gateway.postgres.group_commit import GroupCommit


class Slow:
    """A database whose commits end when it is told so."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ends = asyncio.Event()

    async def commit(self, items: Sequence[int]) -> Sequence[int]:
        self.begun += items
        await self.ends.wait()
        return items


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
