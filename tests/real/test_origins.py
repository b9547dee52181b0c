"""Two real networks that know nothing of each other, and meet by an origin or by a delegate.

A client's Kubo has a content; the service's Kubo, alone or behind a cluster, has nobody to ask.
Both hold the same network key, so that they can talk once one has the other's address."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.multiaddr import Multiaddr
from tests.model.test_multiaddr import GOOD
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_cluster
from tests.world.kubo import Kubo, Swarm, running_kubo
from tests.world.peers import ask

FILES = {"index.html": b"<h1>hello</h1>", "a/b.txt": b"b" * 300_000}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[tuple[Kubo, Kubo]]:
    """The client's Kubo and the service's."""
    ours, theirs = Swarm(), Swarm()
    theirs.key = ours.key
    async with (
        running_kubo(tmp_path / "client", theirs) as client,
        running_kubo(tmp_path / "backend", ours) as backend,
    ):
        yield client, backend


@pytest.fixture(params=["kubo", "ipfs-cluster"])
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, nodes: tuple[Kubo, Kubo]
) -> AsyncIterator[Service]:
    """A service before the second, which lets in the addresses of this machine."""
    async with AsyncExitStack() as stack:
        settings: dict[str, Any] = {"kubo__url": nodes[1].url}
        if request.param == "ipfs-cluster":
            cluster = await stack.enter_async_context(
                running_cluster(tmp_path / "cluster", nodes[1])
            )
            settings = {
                "ipfs_cluster__urls": [cluster.url],
                "ipfs_cluster__username": cluster.username,
                "ipfs_cluster__password": cluster.password,
                "ipfs_cluster__batch_age": 0,
            }
        yield await stack.enter_async_context(
            running_service(
                tmp_path / "gateway",
                pins__backend=request.param,
                pins__private_origins=True,
                **settings,
            )
        )


async def pinned(service: Service, shown: Any) -> None:
    """Return once the pin is pinned."""
    path = f"/pins/{shown['requestid']}"

    async def is_so() -> bool:
        answer = await service.psa("GET", path)
        return bool(answer.json["status"] == "pinned")

    await eventually(is_so, what="it is pinned", seconds=60)


async def test_they_meet_by_an_origin(service: Service, nodes: tuple[Kubo, Kubo]) -> None:
    """The service's node connects to whom the requestor names, and fetches from there."""
    client, backend = nodes
    cid = await client.add_directory(FILES)
    begun = time.monotonic()
    body = {"cid": cid, "origins": [client.swarm_address]}
    await pinned(service, (await service.psa("POST", body=body)).json)
    print(f"pinned {time.monotonic() - begun:.1f} s after an origin was named")
    assert await backend.is_pinned(cid)


async def test_they_meet_by_a_delegate(service: Service, nodes: tuple[Kubo, Kubo]) -> None:
    """The client's node connects to whom the service names: the backend's own address."""
    client, backend = nodes
    cid = await client.add_directory(FILES)
    shown = (await service.psa("POST", body={"cid": cid})).json

    async def delegates() -> Any:
        return (await service.psa("GET", f"/pins/{shown['requestid']}")).json["delegates"]

    begun = time.monotonic()
    assert await eventually(delegates) == [backend.swarm_address]
    await client.connect(backend.swarm_address)
    await pinned(service, shown)
    print(f"pinned {time.monotonic() - begun:.1f} s after a delegate was told")
    assert await backend.is_pinned(cid)


async def test_an_origin_that_is_named_later_helps(
    service: Service, nodes: tuple[Kubo, Kubo]
) -> None:
    """A pin that waits for somebody who has it is described again, and tried with the origin."""
    client, backend = nodes
    cid = await client.add_raw(b"later")
    await service.psa("POST", body={"cid": cid})

    async def was_tried() -> bool:
        status = await service.ask("GET", f"/ipfs/pin/status/{cid}")
        return bool(status.json["result"]["status"] in ("pinning", "failed"))

    await eventually(was_tried, seconds=60)
    body = {"cid": cid, "origins": [client.swarm_address]}
    await pinned(service, (await service.psa("POST", body=body)).json)
    assert await backend.is_pinned(cid)


async def test_what_we_take_for_a_multiaddr_a_cluster_takes(
    tmp_path: Path, nodes: tuple[Kubo, Kubo]
) -> None:
    """Or it would refuse it, and pin all the same (docs/facts/pins.md, trap 1); so what does not
    name a peer is not sent."""
    async with running_cluster(tmp_path / "cluster", nodes[1]) as cluster:
        for number, text in enumerate(GOOD):
            is_node = Multiaddr.parse(text).peer_id is not None
            status = await status_of(cluster, number, text)
            assert status == 200 or not is_node, text


async def status_of(cluster: Cluster, number: int, origin: str) -> int:
    """What the cluster answers to a pin with that origin."""
    cid = Cid(RAW, IDENTITY, bytes([number]))
    url = f"{cluster.url}/pins/{cid}?origins={origin.replace('%', '%25')}"
    return (await ask("POST", url, headers=cluster.credentials))[0]
