"""Pins on a real IPFS Cluster and a real Kubo, through the whole service."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from content_gateway.content.cid import RAW, Cid
from content_gateway.content.multiformats import SHA2_256
from content_gateway.content.pins import ContentState
from tests.service import Service, eventually, running_service
from tests.world.cluster import Cluster, running_cluster
from tests.world.kubo import Kubo, running_kubo


@pytest.fixture
async def kubo(tmp_path: Path) -> AsyncIterator[Kubo]:
    async with running_kubo(tmp_path / "kubo") as kubo:
        yield kubo


@pytest.fixture
async def cluster(tmp_path: Path, kubo: Kubo) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "cluster", kubo) as cluster:
        yield cluster


@pytest.fixture
async def service(tmp_path: Path, cluster: Cluster) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path / "gateway",
        pins__backend="ipfs-cluster",
        ipfs_cluster__url=cluster.url,
        ipfs_cluster__username=cluster.username,
        ipfs_cluster__password=cluster.password,
    ) as service:
        yield service


async def is_settled(service: Service, cid: str, key: str = "me") -> bool:
    """Whether the service itself believes that *cid* is pinned."""
    requestor = service.gateway.keys.identify(key).id
    status = service.gateway.pinning.status(requestor, Cid.parse(cid))
    return status.state is ContentState.PINNED


async def test_a_pin_is_in_the_cluster_and_its_content_in_kubo(
    service: Service, cluster: Cluster, kubo: Kubo
) -> None:
    """What was added over HTTP is in the cluster's pinset and pinned by Kubo, within seconds."""
    cid = await kubo.add_directory({"index.html": b"<h1>hello</h1>", "a.txt": b"a"})
    assert (await service.pin(cid)).json["message"] == "Pin added"
    await eventually(lambda: is_settled(service, cid))
    assert await cluster.pinset() == {str(Cid.parse(cid))}
    assert await kubo.is_pinned(str(Cid.parse(cid)))


async def test_a_second_key_adds_nothing_to_the_cluster(
    service: Service, cluster: Cluster, kubo: Kubo
) -> None:
    """The same CID under another key is one more promise and not one more pin."""
    cid = await kubo.add_raw(b"shared")
    await service.pin(cid, key="one")
    await eventually(lambda: is_settled(service, cid, "one"))
    before = await cluster.allocation(cid)
    assert (await service.pin(cid, key="two")).json["message"] == "Pin added"
    assert await is_settled(service, cid, "two")
    assert await cluster.pinset() == {cid}
    # The cluster stamps a pin whenever it is written: it was not written again.
    assert await cluster.allocation(cid) == before


async def test_a_cluster_that_was_down_has_the_pin_when_it_is_back(
    service: Service, cluster: Cluster, kubo: Kubo
) -> None:
    """A POST while the cluster is down is acknowledged, and reaches it soon after its return."""
    cid = await kubo.add_raw(b"patience")
    await cluster.stop()
    assert (await service.pin(cid)).json["message"] == "Pin added"
    assert not await is_settled(service, cid)
    await cluster.start()
    await eventually(lambda: is_settled(service, cid), seconds=30)
    assert await cluster.pinset() == {cid}
    assert await kubo.is_pinned(cid)


async def test_content_that_cannot_be_had_is_failed_and_then_pinned(
    service: Service, cluster: Cluster, kubo: Kubo
) -> None:
    """A CID that nobody has is failed, with the cluster's reason, and pinned once it is there."""
    data = b"not yet here"
    cid = Cid(RAW, SHA2_256, sha256(data).digest())
    await service.pin(str(cid))
    requestor = service.gateway.keys.identify("me").id

    async def has_failed() -> bool:
        status = service.gateway.pinning.status(requestor, cid)
        return status.state is ContentState.FAILED and bool(status.error)

    await eventually(has_failed, seconds=30)
    assert await kubo.add_raw(data) == str(cid)
    await eventually(lambda: is_settled(service, str(cid)), seconds=60)


async def test_kubo_alone_can_be_the_backend(tmp_path: Path, kubo: Kubo) -> None:
    """With pins.backend = "kubo" the node holds the pin, and a second key does not pin again."""
    cid = await kubo.add_directory({"a": b"1", "b": b"2"})
    async with running_service(
        tmp_path / "gateway", pins__backend="kubo", kubo__url=kubo.url
    ) as service:
        await service.pin(cid, key="one")
        await eventually(lambda: is_settled(service, cid, "one"))
        await service.pin(cid, key="two")
        assert await is_settled(service, cid, "two")
    assert await kubo.is_pinned(str(Cid.parse(cid)))
