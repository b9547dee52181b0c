"""Slots for connections: who waits, for how long, and whose fault that is."""

import asyncio

import pytest

from content_gateway.errors import Overloaded, UpstreamTimeout
from content_gateway.net.connection_slots import ConnectionSlots, PoolLimits
from content_gateway.net.http_client import HttpClient
from tests.fakes.flood import flooding
from tests.waiting import until

SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"


async def test_one_server_takes_no_more_than_its_share() -> None:
    """Who asks a busy server waits; who asks another one does not."""
    slots = ConnectionSlots(PoolLimits(in_all=3, per_server=2, seconds=60))
    got: list[str] = []

    async def hold(server: str, until_told: asyncio.Event) -> None:
        async with slots.one(server):
            got.append(server)
            await until_told.wait()

    told = asyncio.Event()
    held = [asyncio.create_task(hold("busy", told)) for _ in range(5)]
    await until(lambda: got == ["busy", "busy"])
    async with slots.one("other"):
        assert got == ["busy", "busy"]
    told.set()
    await asyncio.gather(*held)
    assert got == ["busy"] * 5


async def test_a_wait_has_an_end_and_the_queue_too() -> None:
    """Both are our overload, and leave everything as it was."""
    slots = ConnectionSlots(PoolLimits(in_all=1, per_server=1, waiting=1, seconds=0.05))
    async with slots.one("a"):
        waiting = asyncio.create_task(slots.one("a").__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="Too many"):
            await slots.one("a").__aenter__()
        with pytest.raises(Overloaded, match="free in time"):
            await waiting
        with pytest.raises(Overloaded, match="free in time"):
            await slots.one("b").__aenter__()  # its own are free, and the pool's are not
    for server in ("a", "b", "a"):
        async with slots.one(server):
            pass


async def test_a_caller_who_gives_up_leaves_no_gap() -> None:
    """A cancelled wait takes no slot with it."""
    slots = ConnectionSlots(PoolLimits(in_all=1, per_server=1, seconds=60))
    async with slots.one("a"):
        waiting = [asyncio.create_task(slots.one("a").__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    async with slots.one("a"):
        pass


async def test_waiting_is_not_the_servers_fault() -> None:
    """A request that found no connection was never asked: no deadline of the server's ran."""
    limits = PoolLimits(in_all=1, per_server=1, seconds=0.05)
    with flooding(b"") as silent, flooding(SMALL) as well:
        async with HttpClient(limits=limits) as outbound:
            slow = asyncio.create_task(outbound.ask("GET", silent.url, seconds=5, max_bytes=9))
            await until(lambda: silent.connections)
            begun: list[str] = []
            with pytest.raises(Overloaded):
                await outbound.ask(
                    "GET", well.url, seconds=0.01, max_bytes=9, begun=lambda: begun.append("yes")
                )
            assert begun == []
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            assert (await outbound.ask("GET", well.url, seconds=30, max_bytes=9)).body == b"x"


async def test_a_wait_spends_no_deadline() -> None:
    """Who waited longer than the server may take has the whole deadline all the same."""
    with flooding(b"") as silent, flooding(SMALL) as well:
        async with HttpClient(limits=PoolLimits(in_all=1, per_server=1, seconds=60)) as outbound:
            slow = asyncio.create_task(outbound.ask("GET", silent.url, seconds=1.5, max_bytes=9))
            await until(lambda: silent.connections)
            # Longer than this one's own deadline.
            answer = await outbound.ask("GET", well.url, seconds=1.0, max_bytes=9)
            assert answer.body == b"x"
            with pytest.raises(UpstreamTimeout):
                await slow
