"""A service before a miniature cluster, for tests of what is said of pins.

The cluster has whatever is asked for, at once, unless a test says otherwise."""

from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import running_servers
from tests.fakes.supply import Supply
from tests.service import Service, running_service
from tests.waiting import eventually

DELEGATE = "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
V1 = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
V0 = "QmRAQB6YaCyidP37UdDnjFY5vQuiBrcqdyoW1CuDgwxkD4"
EVERY_STATUS = "?status=queued,pinning,pinned,failed"


class Everything(Supply):
    """A world in which somebody has every block."""

    def missing(self, blocks: Set[Cid]) -> Set[Cid]:
        return frozenset()


def cid_of(text: str) -> str:
    """The CID of a raw block that holds *text*."""
    return str(Cid(RAW, SHA2_256, sha256(text.encode()).digest()))


@asynccontextmanager
async def running_cluster() -> AsyncIterator[MiniCluster]:
    """Three peers on loopback that can fetch whatever they are asked for."""
    cluster = MiniCluster(clock=time)
    cluster.supply = Everything()
    async with running_servers(MiniRest(cluster)):
        yield cluster


@asynccontextmanager
async def before(cluster: MiniCluster, data: Path, **chosen: Any) -> AsyncIterator[Service]:
    """A service whose backend is *cluster*, with settings as *chosen*."""
    settings: dict[str, Any] = {
        "pins__backend": "ipfs-cluster",
        "pins__unpin_grace": 0,
        "pins__delegates": [DELEGATE],
        "ipfs_cluster__urls": [peer.url for peer in cluster.peers],
        "ipfs_cluster__batch_age": 0,
    }
    async with running_service(data, **(settings | chosen)) as service:
        yield service


async def becomes(service: Service, cid: str, status: str, *, key: str = "me") -> Any:
    """The result of the pin's status once it is *status*."""

    async def is_so() -> Any:
        answer = await service.ask("GET", f"/ipfs/pin/status/{cid}", key=key)
        assert answer.status == 200, answer.body
        return answer.json["result"] if answer.json["result"]["status"] == status else None

    return await eventually(is_so)


async def add(service: Service, cid: str, **more: Any) -> Any:
    """The PinStatus of a pin that was accepted."""
    answer = await service.psa("POST", body={"cid": cid, **more})
    assert answer.status == 202, answer.body
    return answer.json


async def found(service: Service, query: str, **options: Any) -> list[str]:
    """The CIDs that `GET /psa/pins` shows for *query*; as many as it counts."""
    answer = await service.psa("GET", f"/pins{query}", **options)
    assert answer.status == 200, answer.body
    assert answer.json["count"] == len(answer.json["results"])
    return [status["pin"]["cid"] for status in answer.json["results"]]
