"""Benches for IPFS Cluster: the miniature over HTTP and without it, and the real one.

Knows how each of these worlds is built and changed; what is promised is in promises.py."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.model.cid import CODECS, Cid
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import Wire, running_servers
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_clusters, start_all
from tests.world.kubo import Kubo, KuboError, running_kubos
from tests.world.peers import ask

BATCH_AGE = 2.0


class MiniClusterBench:
    """A miniature cluster of three peers, whose clock is moved by `record_outcomes`."""

    is_remote = True

    def __init__(self, cluster: MiniCluster, clock: Clock, backend: IpfsCluster) -> None:
        self.cluster, self.clock, self.backend = cluster, clock, backend

    async def provide(self, cid: Cid, data: bytes) -> None:
        self.cluster.provide(cid, data)

    async def forget(self, cid: Cid) -> None:
        self.cluster.forget(cid)

    async def go_dark(self) -> None:
        for peer in self.cluster.peers:
            peer.is_dark = True

    async def come_back(self) -> None:
        for peer in self.cluster.peers:
            peer.is_dark = False

    async def record_outcomes(self) -> None:
        self.clock.pass_(BATCH_AGE)

    async def keeps(self, cid: Cid) -> bool:
        return self.cluster.keeps(cid)


@asynccontextmanager
async def cluster_bench(tmp_path: Path) -> AsyncIterator[MiniClusterBench]:
    cluster, clock = _miniature()
    async with running_servers(MiniRest(cluster)) as servers, HttpClient() as outbound:
        urls = [server.url for server in servers]
        backend = IpfsCluster(outbound, urls, batch_age=BATCH_AGE, clock=clock)
        yield MiniClusterBench(cluster, clock, backend)


@asynccontextmanager
async def wired_cluster_bench(tmp_path: Path) -> AsyncIterator[MiniClusterBench]:
    cluster, clock = _miniature()
    wire = Wire(cluster)
    backend = IpfsCluster(wire, wire.urls, batch_age=BATCH_AGE, clock=clock)
    yield MiniClusterBench(cluster, clock, backend)


def _miniature() -> tuple[MiniCluster, Clock]:
    clock = Clock()
    cluster = MiniCluster(3, clock=clock, batch_age=BATCH_AGE)
    cluster.spread_seconds, cluster.queue_seconds, cluster.pin_seconds = 0.5, 0.5, 1.0
    return cluster, clock


class RealClusterWorld:
    """Real peers, a Kubo behind each, and one Kubo more: that one has what somebody has."""

    def __init__(
        self, peers: Sequence[Cluster], kubos: Sequence[Kubo], pinned_at_first: set[str]
    ) -> None:
        self.peers = peers
        self.somebody, *self.kubos = kubos
        self._pinned_at_first = pinned_at_first  # a new Kubo pins an empty directory

    async def clear(self) -> None:
        """Unpin everything that an earlier test has left."""
        await eventually(self._is_empty, what="nothing is pinned", seconds=40)
        for kubo in (self.somebody, *self.kubos):
            await kubo.collect_garbage()

    async def _is_empty(self) -> bool:
        """Whether nothing is pinned; what is, is released.

        More than once, as a pin in an open batch cannot be, and one peer knows it before others."""
        pinsets = [await peer.pinset() for peer in self.peers]
        for peer, pinset in zip(self.peers, pinsets, strict=True):
            for cid in pinset:
                await ask("DELETE", f"{peer.url}/pins/{cid}", headers=peer.credentials)
        pins = [await kubo.pins() - self._pinned_at_first for kubo in self.kubos]
        return not any([*pinsets, *pins])


class RealClusterBench:
    """A real cluster, as the adapter sees it."""

    is_remote = True

    def __init__(self, backend: IpfsCluster, world: RealClusterWorld) -> None:
        self.backend = backend
        self._world = world
        self._seen = ""

    async def provide(self, cid: Cid, data: bytes) -> None:
        added = await self._world.somebody.add_block(data, CODECS[cid.codec])
        assert Cid.parse(added) == cid

    async def forget(self, cid: Cid) -> None:
        with suppress(KuboError):  # it may be gone by now
            await self._world.somebody.remove_block(str(cid))

    async def go_dark(self) -> None:
        await asyncio.gather(*(peer.stop() for peer in self._world.peers))

    async def come_back(self) -> None:
        await start_all(self._world.peers)

    async def record_outcomes(self) -> None:
        await asyncio.sleep(0.2)

    async def keeps(self, cid: Cid) -> bool:
        # Garbage is collected once no node has the pin: an unpin waits for it in Kubo.
        pinned = [str(cid) in await kubo.pins() for kubo in self._world.kubos]
        if any(pinned):
            await self._tell(cid, f"pinned in Kubo {pinned}")
            return True
        for kubo in self._world.kubos:
            await kubo.collect_garbage()
        held = [await kubo.has_block(str(cid)) for kubo in self._world.kubos]
        await self._tell(cid, f"blocks in Kubo {held}")
        return any(held)

    async def _tell(self, cid: Cid, seen: str) -> None:
        """Print what is new of *cid*, for whoever reads why a test waited in vain."""
        for peer in self._world.peers:
            pin = await peer.allocation(str(cid))
            seen += f"; {peer.name}: {'pin' if pin else 'no pin'}, {await peer.status(str(cid))}"
        if seen != self._seen:
            self._seen = seen
            print(f"{time.strftime('%X')} {cid}: {seen}")


@asynccontextmanager
async def real_cluster_world(directory: Path) -> AsyncIterator[RealClusterWorld]:
    """Two real peers that batch their writes for half a second; good for many benches."""
    async with (
        running_kubos(directory, 3) as kubos,
        running_clusters(directory, kubos[1:], batch_age=0.5) as peers,
    ):
        yield RealClusterWorld(peers, kubos, await kubos[0].pins())


@asynccontextmanager
async def real_cluster_bench(world: RealClusterWorld) -> AsyncIterator[RealClusterBench]:
    """A bench over *world*, which is emptied first."""
    await world.clear()
    peer = world.peers[0]
    urls = [peer.url for peer in world.peers]
    async with HttpClient() as outbound:
        backend = IpfsCluster(
            outbound, urls, username=peer.username, password=peer.password, batch_age=0.5
        )
        yield RealClusterBench(backend, world)
