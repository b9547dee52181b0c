"""Blocks for readers: who is asked first, how often, how many at once, and who pays."""

import asyncio

import pytest

from content_gateway.errors import (
    Blocked,
    ContentUnavailable,
    Overloaded,
    UpstreamTimeout,
)
from content_gateway.model.cid import RAW, Cid
from content_gateway.unixfs.block_reader import BlockReader, ReadPolicy
from tests.unixfs import made
from tests.virtual import run_virtually


def cid(number: int) -> Cid:
    return made.raw(b"%d" % number)[0]


class Held:
    """What a machine holds."""

    def __init__(self, *numbers: int) -> None:
        self.blocks = {cid(number): b"%d" % number for number in numbers}

    async def block(self, cid: Cid) -> bytes | None:
        return self.blocks.get(cid)


class Given:
    """A gateway that has every block of *seconds* each, or nothing, or hangs for one requestor."""

    def __init__(self, seconds: float = 1.0, size: int = 0) -> None:
        self.seconds = seconds
        self.size = size
        self.asked: list[Cid] = []
        self.at_once = self.most_at_once = 0
        self.hangs: set[Cid] = set()
        self.lacks: set[Cid] = set()

    async def block(self, cid: Cid) -> bytes:
        self.asked.append(cid)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(3_600 if cid in self.hangs else self.seconds)
            if cid in self.lacks:
                raise ContentUnavailable("No gateway gave it.")
            return bytes(cid)[:5] + bytes(self.size)
        finally:
            self.at_once -= 1


def test_what_is_held_is_asked_of_nobody() -> None:
    async def run() -> None:
        given = Given()
        reader = BlockReader(Held(1), given)
        assert await reader.block(cid(1), "me") == b"1"
        assert given.asked == []
        await reader.block(cid(2), "me")
        assert given.asked == [cid(2)]
        alone = BlockReader(Held(1), None)
        with pytest.raises(ContentUnavailable):
            await alone.block(cid(2), "me")
        assert await alone.block(Cid(RAW, 0, b"inside"), "me") == b"inside"

    run_virtually(run())


def test_many_readers_of_a_block_cost_one_request() -> None:
    """Who leaves does not take it from the others; whoever leaves last ends it."""

    async def run() -> None:
        given = Given()
        reader = BlockReader(None, given)
        tasks = [asyncio.create_task(reader.block(cid(1), f"key {n}")) for n in range(50)]
        await asyncio.sleep(0.5)
        for task in tasks[:49]:
            task.cancel()
        assert await tasks[49] == bytes(cid(1))[:5]
        assert len(given.asked) == 1
        await reader.block(cid(1), "me")
        assert len(given.asked) == 1
        last = asyncio.create_task(reader.block(cid(2), "me"))
        await asyncio.sleep(0.5)
        assert given.at_once == 1
        last.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        again = asyncio.create_task(reader.block(cid(2), "me"))
        await again
        assert given.asked[1:] == [cid(2), cid(2)]
        assert given.at_once == 0

    run_virtually(run())


def test_a_failure_is_told_to_all_and_remembered_by_nobody() -> None:
    async def run() -> None:
        given = Given()
        given.lacks.add(cid(1))
        reader = BlockReader(None, given)
        results = await asyncio.gather(
            *(reader.block(cid(1), "me") for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [ContentUnavailable] * 3
        given.lacks.clear()
        await reader.block(cid(1), "me")
        assert len(given.asked) == 2

    run_virtually(run())


def test_a_block_that_hangs_ends() -> None:
    async def run() -> None:
        given = Given()
        given.hangs.add(cid(1))
        reader = BlockReader(None, given, policy=ReadPolicy(seconds=15))
        begun = asyncio.get_running_loop().time()
        with pytest.raises(UpstreamTimeout):
            await reader.block(cid(1), "me")
        assert asyncio.get_running_loop().time() - begun == pytest.approx(15)
        assert given.at_once == 0

    run_virtually(run())


def test_one_who_hangs_keeps_no_other_waiting() -> None:
    """A site whose gateways hang holds its share of what is fetched at once, and no more."""

    async def run() -> None:
        given = Given()
        reader = BlockReader(None, given, policy=ReadPolicy(at_once=12, waiting=100, patience=5))
        given.hangs |= {cid(number) for number in range(100)}
        hanging = [asyncio.create_task(reader.block(cid(n), "hog")) for n in range(100)]
        await asyncio.sleep(0.1)
        assert given.at_once == 8
        clock = asyncio.get_running_loop().time
        for number in range(200, 220):
            begun = clock()
            await reader.block(cid(number), "me")
            assert clock() - begun == pytest.approx(1)
        results = await asyncio.gather(*hanging, return_exceptions=True)
        assert {type(result) for result in results} <= {Overloaded, UpstreamTimeout}
        assert given.most_at_once <= 12

    run_virtually(run())


def test_so_many_bytes_stay_in_memory() -> None:
    """The blocks that were read last; one that is too large for that is fetched each time."""

    async def run() -> None:
        given = Given(size=1_000)
        reader = BlockReader(None, given, policy=ReadPolicy(kept=10_500))
        for number in range(20):
            await reader.block(cid(number), "me")
            await reader.block(cid(0), "me")
        given.asked.clear()
        await reader.block(cid(0), "me")
        await reader.block(cid(19), "me")
        assert given.asked == []
        await reader.block(cid(1), "me")
        assert given.asked == [cid(1)]
        given.size = 5_000
        for _ in range(2):
            await reader.block(cid(99), "me")
        assert given.asked == [cid(1), cid(99), cid(99)]

    run_virtually(run())


def test_the_denylist_is_asked_each_time() -> None:
    """Also about a block that is in memory, or held: the list may be newer than the block."""

    async def run() -> None:
        blocked: set[Cid] = set()

        def check(cid: Cid) -> None:
            if cid in blocked:
                raise Blocked("no")

        reader = BlockReader(Held(1), Given(), checker=lambda: check)
        for number in (1, 2):
            await reader.block(cid(number), "me")
            blocked.add(cid(number))
            with pytest.raises(Blocked):
                await reader.block(cid(number), "me")

    run_virtually(run())


def test_closing_ends_what_is_under_way() -> None:
    async def run() -> None:
        given = Given()
        reader = BlockReader(None, given)
        task = asyncio.create_task(reader.block(cid(1), "me"))
        await asyncio.sleep(0.5)
        await reader.close()
        assert given.at_once == 0
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(run())
