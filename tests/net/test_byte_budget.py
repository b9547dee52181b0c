"""Room for large bodies: ordinary ones never find it full."""

import asyncio

import pytest

from content_gateway.errors import Overloaded
from content_gateway.net.byte_budget import FREE_BYTES, ByteBudget
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from tests.fakes.flood import flooding
from tests.waiting import until

LARGE = 1 << 20


def test_what_is_beyond_the_free_bytes_is_counted() -> None:
    """And given back, also by whoever found no room for all of it."""
    room = ByteBudget(100)
    with room.hold() as first, room.hold() as second:
        first.resize(FREE_BYTES + 60)
        second.resize(FREE_BYTES + 40)
        with pytest.raises(Overloaded):
            second.resize(FREE_BYTES + 41)
        first.resize(FREE_BYTES)
        second.resize(FREE_BYTES + 100)
    with room.hold() as third:
        third.resize(FREE_BYTES + 100)


async def test_large_answers_share_a_room_and_small_ones_need_none() -> None:
    """With the room taken by one that drips, another large answer is our overload."""
    large = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE
    limits = PoolLimits(large_bytes=3 * LARGE)
    small = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 20_000 + bytes(20_000)
    with (
        flooding(large + bytes(LARGE - 1)) as slow,
        flooding(large + bytes(LARGE)) as other,
        flooding(small) as well,
    ):
        async with HttpClient(limits=limits) as outbound:
            first = asyncio.create_task(outbound.ask("GET", slow.url, seconds=60, max_bytes=LARGE))
            await until(lambda: outbound._room._left < LARGE + 2 * FREE_BYTES)
            with pytest.raises(Overloaded):
                await outbound.ask("GET", other.url, seconds=60, max_bytes=LARGE)
            answer = await outbound.ask("GET", well.url, seconds=60, max_bytes=LARGE)
            assert answer.body == bytes(20_000)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            answer = await outbound.ask("GET", other.url, seconds=60, max_bytes=LARGE)
            assert answer.body == bytes(LARGE)
