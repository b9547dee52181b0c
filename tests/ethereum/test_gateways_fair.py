"""Connections to off-chain gateways are shared fairly by requestor.

On a virtual clock, with the limits of the real pool: owners of names choose the gateways, so one
key can have as many as it likes hang."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from content_gateway.errors import Overloaded
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.net.connection_slots import ConnectionSlots, PoolLimits
from content_gateway.net.http_client import GUARDED, MAX_IN_FLIGHT, HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.ethereum.lookups import CALL, CONTRACT, Chain, lookup, query, returned
from tests.fakes.gateway import running_gateway
from tests.virtual import run_virtually
from tests.waiting import until

HANGING = 200  # gateways, each with more requests than it may have at once
USUAL = 0.1


class Street:
    """The pool, with requests that hang and requests that take USUAL seconds."""

    def __init__(self) -> None:
        self.slots = ConnectionSlots(GUARDED)
        self._tasks: list[asyncio.Task[Any]] = []

    def begin(self, request: Coroutine[Any, Any, Any]) -> None:
        self._tasks.append(asyncio.create_task(request))

    async def ask(self, server: str, requestor: str, seconds: float = USUAL) -> None:
        async with self.slots.one(server, requestor):
            await asyncio.sleep(seconds)

    async def flood(self, hog: str) -> None:
        """More requests than the pool has places for, all of which hang."""
        for number in range(HANGING * MAX_IN_FLIGHT):
            self.begin(self.ask(f"hang{number % HANGING}.{hog}", hog, 3_600))
        await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.mark.parametrize("hogs", [1, 3])
def test_anothers_gateways_that_hang_hold_nobody_up(hogs: int) -> None:
    """Beside keys whose gateways hang, another key's is asked at once, a hundred times of a
    hundred."""

    async def work() -> list[float]:
        street = Street()
        for number in range(hogs):
            await street.flood(f"hog{number}")
        clock, took = asyncio.get_running_loop().time, []
        for number in range(100):
            begun = clock()
            await street.ask(f"{number}.gateway", "quiet")
            took.append(clock() - begun)
        await street.close()
        return took

    assert max(run_virtually(work())) <= 3 * USUAL


def test_a_busy_gateway_is_asked_in_turn() -> None:
    """Where one key has a hundred requests for a gateway, another's comes after a few of them."""

    async def work() -> float:
        street = Street()
        for _ in range(100):
            street.begin(street.ask("popular", "hog"))
        await asyncio.sleep(0)
        begun = asyncio.get_running_loop().time()
        await street.ask("popular", "quiet")
        took = asyncio.get_running_loop().time() - begun
        await street.close()
        return took

    assert run_virtually(work()) <= 3 * USUAL


def test_who_waits_for_too_much_hears_that_it_is_us() -> None:
    """A requestor whose places in the queue are used up is refused; another one is not."""

    async def work() -> None:
        street = Street()
        for _ in range(1_000):
            street.begin(street.ask("slow", "hog", 3_600))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="Too many"):
            await street.ask("slow", "hog")
        with pytest.raises(Overloaded, match="free in time"):  # it waited, and was not turned away
            await street.ask("slow", "quiet")
        await street.close()

    run_virtually(work())


async def test_a_contracts_gateways_are_charged_to_who_asked_for_the_name() -> None:
    """One key's batch of requests to a gateway that hangs leaves another's name its connection."""
    limits = PoolLimits(in_all=6, per_server=6, waiting=60, seconds=60, reserves=True)
    async with running_gateway() as silent, running_gateway() as well:
        silent.misbehave("hang")
        well.answers = {b"data": b"answer"}
        guard = Guard(local_gateways=[silent.url, well.url])
        async with HttpClient(guard, limits=limits) as outbound:

            def wants(*requests: tuple[list[str], bytes]) -> CcipRead:
                def contract(data: bytes) -> bytes:
                    if data == CALL:
                        raise lookup(["x-batch-gateway:true"], query(*requests))
                    return returned(data)[0]

                return CcipRead(Chain(contract), OffchainGateways(outbound), seconds=60)

            hog = wants(*(([silent.by_get], b"%d" % number) for number in range(8)))
            hanging = asyncio.create_task(hog.call(CONTRACT, CALL, bytes, requestor="hog"))
            await until(lambda: len(silent.requests) >= 4)
            quiet = wants(([well.by_get], b"data"))
            async with asyncio.timeout(60):
                told = await quiet.call(CONTRACT, CALL, bytes, requestor="quiet")
            assert b"answer" in told
            assert len(silent.requests) == 4  # two thirds
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
