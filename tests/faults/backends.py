"""The two backends that killed services are given: the embedded store, and a cluster that dies too.

Each is a world of its own with the settings that lead to it, and says in the end what is kept."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import running_servers
from tests.fakes.origin import Origin, running_origin

BATCH_SECONDS = 0.3


class World(Protocol):
    """A backend and what is around it."""

    settings: dict[str, str]

    def provide(self, cid: Cid, data: bytes) -> None:
        """From now on somebody has that block."""

    async def kept(self, data: Path) -> set[Cid]:
        """What the backend has pinned, while no service runs."""


class Embedded:
    """The embedded store in the service's own folder, with an origin on loopback."""

    def __init__(self, origin: Origin) -> None:
        self.settings = {
            "CONTENT_GATEWAY_PINS__UNPIN_GRACE": "0",
            "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": f'["{origin.url}"]',
        }
        self._origin = origin

    def provide(self, cid: Cid, data: bytes) -> None:
        self._origin.blocks[cid] = data

    async def kept(self, data: Path) -> set[Cid]:
        path = data / "blocks.sqlite"
        async with HttpClient() as outbound, Blockstore(path) as blocks:
            store = EmbeddedStore(blocks, TrustlessGateways(outbound, []))
            listed = [entry.cid async for entry in store.pinset()]
            seen = await store.status(listed)
        assert {status.status for status in seen.values()} <= {TrackerStatus.PINNED}
        return set(listed)


class Batching:
    """A cluster of one peer that keeps changes in memory for a while, and is killed meanwhile."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._is_hunted = True
        self.settings = {
            "CONTENT_GATEWAY_PINS__UNPIN_GRACE": "0",
            "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
            "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": f'["{cluster.peers[0].url}"]',
            "CONTENT_GATEWAY_IPFS_CLUSTER__BATCH_AGE": str(BATCH_SECONDS),
            "CONTENT_GATEWAY_IPFS_CLUSTER__TIMEOUT": "1",
        }

    def provide(self, cid: Cid, data: bytes) -> None:
        self._cluster.provide(cid, data)

    async def kept(self, data: Path) -> set[Cid]:
        self._cluster.catch_up()
        (peer,) = self._cluster.peers
        assert not peer.batch
        assert peer.pinned == set(peer.state)
        return {Cid.parse(cid) for cid in peer.state}

    async def be_killed(self) -> None:
        """Lose what is in memory, again and again, at no particular moment."""
        (peer,) = self._cluster.peers
        while True:
            await asyncio.sleep(1.7)
            if not self._is_hunted:
                return
            self._cluster.kill(peer)
            await asyncio.sleep(0.1)
            self._cluster.start(peer)

    def leave_alone(self) -> None:
        """From now on nobody kills it; it is up within a moment."""
        self._is_hunted = False


@asynccontextmanager
async def embedded() -> AsyncIterator[World]:
    async with running_origin() as origin:
        yield Embedded(origin)


@asynccontextmanager
async def batching() -> AsyncIterator[Batching]:
    cluster = MiniCluster(1, clock=time.monotonic, batch_age=BATCH_SECONDS)
    async with running_servers(MiniRest(cluster)):
        world = Batching(cluster)
        killing = asyncio.create_task(world.be_killed())
        try:
            yield world
        finally:
            killing.cancel()
            with suppress(asyncio.CancelledError):
                await killing
