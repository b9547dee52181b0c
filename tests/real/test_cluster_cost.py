"""What a pin costs a real cluster of three, fed directly and through the service, in one run.

Both ways take turns on the same cluster, so that a larger pinset and a busy machine weigh on both.
CLUSTER_COST_PINS says how many pins go each way."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.real.test_pins import gateway
from tests.service import Service
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_clusters
from tests.world.kubo import Kubo, running_kubos

pytestmark = pytest.mark.deep

PINS = int(os.environ.get("CLUSTER_COST_PINS", "400"))
AT_ONCE = 50
FIRST_PROVIDE = 65.0
AT_REST = 0.15  # CPU seconds a second, of six processes
# Asking each peer for each pin again and again took 1.9 times the CPU. With two thousand it is 1.16
# by now; a few hundred are over so soon that a busy machine weighs more.
MOST_OF_CPU = 1.4
LONG = 240.0
PATIENCE = 30.0


@dataclass
class Cost:
    """Of some pins: CPU seconds of the peers and of their Kubos, and seconds until all had them."""

    pins: int = 0
    cluster: float = 0.0
    kubo: float = 0.0
    seconds: float = 0.0

    @property
    def cpu(self) -> float:
        """Milliseconds of CPU a pin, of peers and Kubos together."""
        return 1000 * (self.cluster + self.kubo) / self.pins

    @property
    def rate(self) -> float:
        """Pins a second."""
        return self.pins / self.seconds

    def __str__(self) -> str:
        parts = (1000 * self.cluster / self.pins, 1000 * self.kubo / self.pins)
        return f"{self.rate:.1f} pins/s, {parts[0]:.1f} + {parts[1]:.1f} ms a pin"


class Scales:
    """A real cluster that is fed, and what that has cost it."""

    def __init__(self, peers: Sequence[Cluster], kubos: Sequence[Kubo]) -> None:
        self.peers, self.kubos = peers, kubos
        self.idle = (0.0, 0.0)  # CPU seconds a second, while nobody asks for anything
        self._began = time.monotonic()
        self._added = 0

    async def tare(self) -> None:
        """Find out what peers and Kubos take for themselves: that is no pin's cost.

        A minute after its start a peer provides again, once, what it has by then (reprovider.go of
        boxo): 2.6 ms of CPU for each pin of that minute, in the middle of whoever's turn it is."""
        seconds = max(8.0, self._began + FIRST_PROVIDE - time.monotonic())
        before, began = self._cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        took, after = time.monotonic() - began, self._cpu()
        self.idle = (after[0] - before[0]) / took, (after[1] - before[1]) / took

    async def blocks(self, number: int) -> list[str]:
        """So many new blocks, which the first Kubo has."""
        start, self._added = self._added, self._added + number
        data = [b"cost %d" % each for each in range(start, self._added)]
        return [cid for each in data for cid in [await self.kubos[0].add_raw(each)]]

    async def weigh(
        self, cost: Cost, cids: Sequence[str], feed: Callable[[Sequence[str]], Awaitable[None]]
    ) -> None:
        """Add to *cost* what it takes until every Kubo has what is fed, and *feed* is over."""
        before, began = self._cpu(), time.monotonic()

        async def until_all_have_it() -> None:
            await eventually(lambda: self.have(set(cids)), what="all have it", seconds=LONG)
            cost.seconds += time.monotonic() - began

        # The ledger may be done later than the Kubos, and no sooner.
        await asyncio.gather(feed(cids), until_all_have_it())
        await self._until_at_rest()
        after, took = self._cpu(), time.monotonic() - began
        cost.pins += len(cids)
        cost.cluster += after[0] - before[0] - took * self.idle[0]
        cost.kubo += after[1] - before[1] - took * self.idle[1]

    async def _until_at_rest(self) -> None:
        """Return once peers and Kubos have done what pins leave them to do behind the answer."""

        async def is_at_rest() -> bool:
            before = sum(self._cpu())
            await asyncio.sleep(1.0)
            return sum(self._cpu()) - before < AT_REST

        await eventually(is_at_rest, what="at rest", seconds=LONG)

    async def have(self, cids: set[str]) -> bool:
        """Whether every Kubo has pinned all *cids*, at most once a second."""
        await asyncio.sleep(1.0)  # a listing is work as well
        for kubo in self.kubos:
            if not cids <= await kubo.pins():
                return False
        return True

    def _cpu(self) -> tuple[float, float]:
        return (
            sum(peer.cpu_seconds for peer in self.peers),
            sum(kubo.cpu_seconds for kubo in self.kubos),
        )


async def feed_directly(scales: Scales, cids: Sequence[str]) -> None:
    """Ask for all *cids*, and again for what some Kubo has not got after a while: at times a pin
    does not come to one of the peers by itself, and whoever feeds a cluster has to see to it."""
    missing = set(cids)
    while missing:
        await _submit(scales.peers, sorted(missing))
        with suppress(TimeoutError):
            await eventually(lambda: scales.have(set(cids)), seconds=PATIENCE)
        pins = [await kubo.pins() for kubo in scales.kubos]
        missing = {cid for cid in cids if not all(cid in held for held in pins)}


async def _submit(peers: Sequence[Cluster], cids: Sequence[str]) -> None:
    """Ask for all *cids*, so many at a time, of all peers in turn."""
    waiting = list(enumerate(cids))

    async def work(session: aiohttp.ClientSession) -> None:
        while waiting:
            number, cid = waiting.pop()
            peer = peers[number % len(peers)]
            async with session.post(f"{peer.url}/pins/{cid}", headers=peer.credentials) as answer:
                assert answer.status == 200, await answer.text()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(work(session) for _ in range(AT_ONCE)))


async def feed_service(service: Service, cids: Sequence[str]) -> None:
    """Promise all *cids*; return once the ledger knows for good that they are pinned."""
    before = len(await service.gateway.resyncs.final_pins(0, 100_000, time.time()))
    await asyncio.gather(*(service.gateway.pinning.add("me", cid) for cid in cids))

    async def are_final() -> bool:
        await asyncio.sleep(1.0)
        final = await service.gateway.resyncs.final_pins(0, 100_000, time.time())
        return len(final) == before + len(cids)

    await eventually(are_final, what="all are final", seconds=LONG)


@pytest.fixture
async def scales(tmp_path: Path) -> AsyncIterator[Scales]:
    async with (
        running_kubos(tmp_path / "kubos", 3) as kubos,
        running_clusters(tmp_path / "clusters", kubos) as peers,
    ):
        yield Scales(peers, kubos)


@pytest.mark.timeout(900)
async def test_a_pin_costs_the_cluster_little_more_than_its_own_feeding(
    tmp_path: Path, scales: Scales
) -> None:
    """The reconciler asks so little that the cluster's and Kubo's CPU a pin are as without it."""
    direct, ours = Cost(), Cost()
    async with gateway(tmp_path / "gateway", scales.peers) as service:
        await scales.tare()
        # Each goes first once.
        for cost in (direct, ours, ours, direct):
            cids = await scales.blocks(PINS // 2)
            if cost is direct:
                await scales.weigh(cost, cids, lambda some: feed_directly(scales, some))
            else:
                await scales.weigh(cost, cids, lambda some: feed_service(service, some))
    ratios = f"{ours.cpu / direct.cpu:.2f} of the CPU, {ours.rate / direct.rate:.2f} of the rate"
    print(f"idle: {scales.idle}")
    print(f"directly: {direct}; through the service: {ours}: {ratios}")
    assert ours.cpu <= MOST_OF_CPU * direct.cpu
