"""The cluster behind the gateways: three real peers with three Kubos, or a miniature.

Says what the pinset holds, and lets a peer stand still or die. Contents are identity CIDs, so that
no Kubo has anything to fetch: what is tested is who wants what, and not bytes."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.model.cid import RAW, Cid
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import MiniServer, running_servers
from tests.world.cluster import Cluster, running_clusters
from tests.world.kubo import running_kubos

PEERS = 3
_SETTINGS = {
    "PINS__BACKEND": "ipfs-cluster",
    "PINS__UNPIN_GRACE": "0.5",
    "PINS__RESYNC_INTERVAL": "30",
    "IPFS_CLUSTER__BATCH_AGE": "0",
    "IPFS_CLUSTER__TIMEOUT": "3",
}


def content(number: int) -> tuple[Cid, bytes]:
    """The CID and bytes of content *number*."""
    data = f"content {number}".encode()
    return Cid(RAW, IDENTITY, data), data


class Backend(Protocol):
    """A cluster; its peers are numbered from 0."""

    settings: dict[str, str]

    def provide(self, cid: Cid, data: bytes) -> None:
        """From now on that block can be had."""

    async def pinset(self) -> set[str]:
        """The CIDs that the cluster holds, as it spells them."""

    def pause(self, peer: int) -> None:
        """Let a peer stand still."""

    def go_on(self, peer: int) -> None:
        """Let it go on."""

    async def kill9(self, peer: int) -> None:
        """End a peer at once."""

    async def start(self, peer: int) -> None:
        """Start it again, with what it has kept."""


class RealCluster:
    """ipfs-cluster."""

    def __init__(self, peers: Sequence[Cluster]) -> None:
        self._peers = peers
        self.settings = _SETTINGS | {
            "IPFS_CLUSTER__URLS": json.dumps([peer.url for peer in peers]),
            "IPFS_CLUSTER__USERNAME": peers[0].username,
            "IPFS_CLUSTER__PASSWORD": peers[0].password,
        }

    def provide(self, cid: Cid, data: bytes) -> None:
        pass

    async def pinset(self) -> set[str]:
        return await self._peers[0].pinset()

    def pause(self, peer: int) -> None:
        self._peers[peer].pause()

    def go_on(self, peer: int) -> None:
        self._peers[peer].go_on()

    async def kill9(self, peer: int) -> None:
        await self._peers[peer].kill9()

    async def start(self, peer: int) -> None:
        await self._peers[peer].start()


class MiniatureCluster:
    """The miniature of tests/fakes."""

    def __init__(self, cluster: MiniCluster, servers: Sequence[MiniServer]) -> None:
        self._cluster = cluster
        self._servers = servers
        self.settings = _SETTINGS | {
            "IPFS_CLUSTER__URLS": json.dumps([server.url for server in servers])
        }

    def provide(self, cid: Cid, data: bytes) -> None:
        self._cluster.provide(cid, data)

    async def pinset(self) -> set[str]:
        self._cluster.catch_up()
        return set(self._cluster.peers[0].state)

    def pause(self, peer: int) -> None:
        self._servers[peer].misbehave("hang")

    def go_on(self, peer: int) -> None:
        self._servers[peer].come_back()

    async def kill9(self, peer: int) -> None:
        self._cluster.kill(self._cluster.peers[peer])

    async def start(self, peer: int) -> None:
        self._cluster.start(self._cluster.peers[peer])


@asynccontextmanager
async def real_cluster(folder: Path) -> AsyncIterator[Backend]:
    """Three peers of ipfs-cluster, each before a Kubo of its own."""
    async with (
        running_kubos(folder / "kubos", PEERS) as kubos,
        running_clusters(folder / "clusters", kubos) as peers,
    ):
        yield RealCluster(peers)


@asynccontextmanager
async def miniature_cluster(_: Path) -> AsyncIterator[Backend]:
    """A miniature of three peers."""
    cluster = MiniCluster(PEERS, clock=time.monotonic)
    async with running_servers(MiniRest(cluster)) as servers:
        yield MiniatureCluster(cluster, servers)
