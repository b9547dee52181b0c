"""Pins on a real IPFS Cluster of three peers with three Kubos, through the whole service.

One story a test: what requestors do over HTTP, what becomes of the cluster, and what the cluster
and the nodes hold in the end."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_clusters, start_all, wipe
from tests.world.kubo import Kubo, running_kubo
from tests.world.peers import ask

LONG = 90.0


@asynccontextmanager
async def gateway(folder: Path, peers: Sequence[Cluster], **chosen: Any) -> AsyncIterator[Service]:
    """The service before *peers*, quick to unpin and to resync."""
    options = {
        "ipfs_cluster__batch_age": 0.0,
        "ipfs_cluster__timeout": 3.0,
        "pins__unpin_grace": 0.5,
        "pins__resync_interval": 3600.0,
        **chosen,
    }
    async with running_service(
        folder,
        pins__backend="ipfs-cluster",
        ipfs_cluster__urls=[peer.url for peer in peers],
        ipfs_cluster__username=peers[0].username,
        ipfs_cluster__password=peers[0].password,
        **options,
    ) as service:
        yield service


@pytest.fixture
async def service(tmp_path: Path, peers: Sequence[Cluster]) -> AsyncIterator[Service]:
    async with gateway(tmp_path / "gateway", peers) as service:
        yield service


async def status(service: Service, cid: str, key: str = "me") -> dict[str, Any]:
    """What the service says of the pin."""
    answer = await service.ask("GET", f"/ipfs/pin/status/{cid}", key=key)
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.json["result"]
    return result


async def until(service: Service, cid: str, wanted: str, key: str = "me") -> dict[str, Any]:
    """The status of the pin, once it is the *wanted* one."""

    async def is_so() -> dict[str, Any] | None:
        now = await status(service, cid, key)
        return now if now["status"] == wanted else None

    found: dict[str, Any] = await eventually(is_so, seconds=LONG)
    return found


async def until_final(service: Service, number: int) -> None:
    """Return once *number* contents are pinned and nothing is left to do about any."""

    async def is_so() -> bool:
        numbers = await service.gateway.resyncs.final_pins(0, number + 1, time.time())
        return len(numbers) == number

    await eventually(is_so, seconds=LONG)


async def held_by_all(kubos: Sequence[Kubo], cid: str) -> bool:
    """Whether every node has the content pinned."""
    return all([await kubo.is_pinned(cid) for kubo in kubos])


async def held_by_none(kubos: Sequence[Kubo], cid: str) -> bool:
    """Whether no node has the content pinned."""
    return not any([await kubo.is_pinned(cid) for kubo in kubos])


async def test_a_pin_lives_and_dies_on_three_peers(
    service: Service, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """Pinned everywhere for one key; a second adds nothing; it leaves with the last of them."""
    cid = await kubos[0].add_directory({"index.html": b"<h1>hello</h1>", "a.txt": b"a"})
    assert (await service.pin(cid, key="one")).json["message"] == "Pin added"
    told = await until(service, cid, "pinned", "one")
    assert told["replicas"] == {"pinned": 3, "wanted": 3}
    assert [peer["status"] for peer in told["peers"]] == ["pinned"] * 3
    await eventually(lambda: held_by_all(kubos, cid), seconds=LONG)

    before = await peers[0].allocation(cid)
    assert (await service.pin(cid, key="two")).json["message"] == "Pin added"
    assert (await status(service, cid, "two"))["status"] == "pinned"
    # The cluster stamps a pin whenever it is written: it was not written again.
    assert await peers[0].allocation(cid) == before

    stays = await service.ask("DELETE", f"/ipfs/pin/rm/{cid}", key="one")
    assert stays.status == 200
    assert (await service.ask("GET", f"/ipfs/pin/status/{cid}", key="one")).status == 404
    await asyncio.sleep(3)
    assert await held_by_all(kubos, cid)
    assert (await status(service, cid, "two"))["status"] == "pinned"

    leaves = await service.ask("DELETE", f"/ipfs/pin/rm/{cid}", key="two")
    assert leaves.json["message"] == stays.json["message"]  # who else holds it is not told
    await eventually(lambda: held_by_none(kubos, cid), seconds=LONG)
    for peer in peers:
        assert await peer.allocation(cid) is None

    async def is_forgotten() -> bool:
        return not await service.gateway.contents.counts()

    await eventually(is_forgotten, seconds=LONG)


async def test_a_killed_peer_delays_and_loses_nothing(
    service: Service, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """One of three peers is killed: pins go on through the others, and it has them afterwards."""
    before = [await kubos[0].add_raw(b"before %d" % number) for number in range(5)]
    for cid in before:
        await service.pin(cid)
    for cid in before:
        await until(service, cid, "pinned")
    await peers[1].kill9()
    during = [await kubos[0].add_raw(b"during %d" % number) for number in range(10)]
    for cid in during:
        assert (await service.pin(cid)).json["message"] == "Pin added"

    async def are_accepted() -> bool:
        return all([await peers[0].allocation(cid) is not None for cid in during])

    await eventually(are_accepted, seconds=LONG)
    await peers[1].start()
    await service.gateway.resync.now()
    for cid in [*before, *during]:
        await until(service, cid, "pinned")
        # A cluster counts the peers that are up: "pinned" may be from before this one was back.
        await eventually(partial(held_by_all, kubos, cid), seconds=LONG)
    await until_final(service, 15)
    for peer in peers:
        assert await peer.pinset() == {*before, *during}


@pytest.mark.deep
async def test_a_wiped_cluster_is_asked_for_everything_again(
    service: Service, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """The whole cluster forgets its pinset; every pin is back, and a stranger is only reported."""
    cids = [await kubos[0].add_raw(b"kept %d" % number) for number in range(60)]
    for cid in cids:
        await service.pin(cid)
    await until_final(service, 60)
    assert await peers[2].pinset() == set(cids)
    await wipe(peers)
    stranger = await kubos[0].add_raw(b"not ours")
    await ask("POST", f"{peers[0].url}/pins/{stranger}", headers=peers[0].credentials)
    report = await service.gateway.resync.now()
    assert report is not None
    assert (report.missing, [str(cid) for cid in report.sample]) == (60, [stranger])

    async def is_whole() -> bool:
        return await peers[0].pinset() == {*cids, stranger}

    await eventually(is_whole, seconds=LONG)
    for cid in cids:
        await until(service, cid, "pinned")


async def test_a_cluster_that_was_down_has_the_pins_when_it_is_back(
    service: Service, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """Acknowledged while every peer is down, with the reason in the status; there afterwards."""
    cid = await kubos[0].add_raw(b"patience")
    for peer in peers:
        await peer.stop()
    assert (await service.pin(cid)).json["message"] == "Pin added"

    async def has_reason() -> bool:
        return "reason" in await status(service, cid)

    await eventually(has_reason, seconds=LONG)
    assert (await status(service, cid))["status"] == "queued"
    await start_all(peers)
    await until(service, cid, "pinned")
    await eventually(lambda: held_by_all(kubos, cid), seconds=LONG)


async def test_content_that_cannot_be_had_is_failed_and_then_pinned(
    service: Service, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """A CID that nobody has is failed, in words for people, and pinned once it is there."""
    data = b"not yet here"
    cid = str(Cid(RAW, SHA2_256, sha256(data).digest()))
    await service.pin(cid)
    failed = await until(service, cid, "failed")
    assert "context" not in failed["reason"]
    assert failed["replicas"]["pinned"] == 0
    assert await kubos[0].add_raw(data) == cid
    await until(service, cid, "pinned")


@pytest.mark.deep
async def test_a_batching_cluster_that_is_killed_loses_nothing(
    tmp_path: Path, kubos: Sequence[Kubo]
) -> None:
    """Killed inside the batch window, with requests it had said yes to: all of them come true."""
    async with (
        running_clusters(tmp_path / "batching", kubos, batch_age=6.0) as peers,
        gateway(tmp_path / "gateway", peers, ipfs_cluster__batch_age=6.0) as service,
    ):
        cids = [await kubos[0].add_raw(b"batched %d" % number) for number in range(20)]
        for cid in cids:
            assert (await service.pin(cid)).json["message"] == "Pin added"

        async def were_sent() -> bool:
            return all([(await status(service, cid))["attempts"] for cid in cids])

        await eventually(were_sent)
        for peer in peers:
            assert not await peer.pinset(), "the batch is closed: the kill would prove nothing"
        await asyncio.gather(*(peer.kill9() for peer in peers))
        await start_all(peers)
        for cid in cids:
            await until(service, cid, "pinned")
        await until_final(service, 20)
        assert await peers[0].pinset() == set(cids)
        # Released inside the window of its own pin: the DELETE comes too early and is repeated.
        late = await kubos[0].add_raw(b"in and out")
        await service.pin(late)
        await asyncio.sleep(0.3)
        await service.ask("DELETE", f"/ipfs/pin/rm/{late}")

        async def is_gone() -> bool:
            counts = await service.gateway.contents.counts()
            return sum(counts.values()) == 20 and await peers[0].allocation(late) is None

        await eventually(is_gone, seconds=LONG)
        assert await peers[0].pinset() == set(cids)


async def test_kubo_alone_can_be_the_backend(tmp_path: Path) -> None:
    """With pins.backend = "kubo" the node holds the pin until the last requestor releases."""
    async with (
        running_kubo(tmp_path / "kubo") as kubo,
        running_service(
            tmp_path / "gateway", pins__backend="kubo", kubo__url=kubo.url, pins__unpin_grace=0.2
        ) as service,
    ):
        cid = await kubo.add_directory({"a": b"1", "b": b"2"})
        await service.pin(cid, key="one")
        await until(service, cid, "pinned", "one")
        await service.pin(cid, key="two")
        assert (await status(service, cid, "two"))["status"] == "pinned"
        await service.ask("DELETE", f"/ipfs/pin/rm/{cid}", key="one")
        assert await kubo.is_pinned(cid)
        await service.ask("DELETE", f"/ipfs/pin/rm/{cid}", key="two")
        await eventually(lambda: held_by_none([kubo], cid))
