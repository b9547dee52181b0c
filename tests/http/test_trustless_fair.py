"""What the store sends is shared fairly by client: by key, and without one by network.

On a virtual clock, over a store that reads one piece a second, whoever it is for."""

import asyncio
import math
from collections.abc import AsyncGenerator

import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import Overloaded
from content_gateway.http.messages import Request, ResponseStream, network_of
from content_gateway.http.operations.trustless_gateway import TrustlessHandlers
from content_gateway.http.streams import LARGE_ANSWERS, large_answers
from content_gateway.ipld.selection import Selection
from content_gateway.model.cid import RAW, Cid
from tests.virtual import run_virtually

LARGE = bytes(2**20)
PIECES = 10
CID = Cid(RAW, SHA2_256, bytes(32))


class Store:
    """Reads blocks and pieces of CARs one after the other, in a second each."""

    def __init__(self) -> None:
        self._disk = asyncio.Lock()
        self.answers = large_answers()
        self.handlers = TrustlessHandlers(self, Denylist(None, None), self.answers)

    async def block(self, cid: Cid) -> bytes:
        async with self._disk:
            await asyncio.sleep(1)
        return LARGE

    async def car(self, cid: Cid, selection: Selection) -> AsyncGenerator[bytes, None]:
        for _ in range(PIECES):
            yield await self.block(cid)

    async def read(self, address: str, form: str = "car", *, at_once: bool = True) -> float:
        """The seconds until the answer was read; the hog takes one after the other, for ever."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        stream = await self.handlers.get(
            Request(str(CID), f"format={form}".encode(), (), None, b"", network_of(address))
        )
        assert isinstance(stream, ResponseStream)
        async for chunk in stream.chunks:
            assert chunk == LARGE
            if not at_once:
                await asyncio.sleep(3_600)
        stream.done()
        return clock() - begun


async def _tail(form: str, hogs: int, *, at_once: bool) -> float:
    """The 99th percentile of the seconds of a quiet one's answers beside 64 readers of each hog."""
    store = Store()

    async def read_on(address: str) -> None:
        while True:
            try:
                await store.read(address, form, at_once=at_once)
            except Overloaded:
                await asyncio.sleep(1)

    tasks = [
        asyncio.create_task(read_on(f"10.0.0.{hog}")) for hog in range(hogs) for _ in range(64)
    ]
    await asyncio.sleep(5)
    took = sorted([await store.read("10.1.0.1", form) for _ in range(30)])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return took[math.ceil(0.99 * len(took)) - 1]


@pytest.mark.parametrize("form", ["car", "raw"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at full speed", "unread"])
def test_many_readers_of_one_keep_no_other_waiting(form: str, at_once: bool) -> None:
    """64 of one address, which read all they can or nothing at all: three times as long at most."""
    alone = run_virtually(_tail(form, 0, at_once=at_once))
    assert run_virtually(_tail(form, 1, at_once=at_once)) <= 3 * alone


def test_one_address_has_a_share_of_the_large_answers() -> None:
    """The others wait for a moment, and then hear that it is our own overload."""

    async def run() -> None:
        store = Store()
        asks = [store.read("10.0.0.1", at_once=False) for _ in range(LARGE_ANSWERS)]
        tasks = [asyncio.create_task(ask) for ask in asks]
        await asyncio.sleep(4)
        assert store.answers.held_by("10.0.0.1") == 2 * LARGE_ANSWERS // 3
        await asyncio.sleep(2)
        refused = [task for task in tasks if task.done()]
        assert {type(task.exception()) for task in refused} == {Overloaded}
        assert len(refused) == LARGE_ANSWERS - 2 * LARGE_ANSWERS // 3
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtually(run())


def test_a_network_is_one_client() -> None:
    """Whoever has an IPv6 network has 2^64 addresses of it (RFC 4291 section 2.5.1)."""
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:0:0:2") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1")
    assert network_of("") == ""


async def test_an_answer_that_fails_gives_its_permit_back() -> None:
    """Also one that was refused, and one whose client is gone before it began."""

    class Broken(Store):
        async def block(self, cid: Cid) -> bytes:
            raise OSError

    store = Broken()
    with pytest.raises(OSError):  # noqa: PT011 - ours
        await store.read("10.0.0.1")
    assert store.answers.free == LARGE_ANSWERS
    assert isinstance(store.answers, FairSemaphore)
