"""What a real cluster of three has lost of what it held: told within one interval, and repaired.

The pinset does not know of it: content that was removed from every Kubo is in it, and so is the
replica of a peer that is gone for good."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from content_gateway.model.content_state import ResyncReport
from tests.real.test_pins import LONG, gateway, status, until, until_final
from tests.service import Service
from tests.waiting import eventually
from tests.world.cluster import Cluster
from tests.world.kubo import Kubo

pytestmark = pytest.mark.deep

INTERVAL = 3.0


async def pinned(service: Service, kubo: Kubo, name: bytes, number: int) -> list[str]:
    """So many contents, pinned, with nothing left to do."""
    cids = [await kubo.add_raw(b"%s %d" % (name, each)) for each in range(number)]
    for cid in cids:
        await service.pin(cid)
    await until_final(service, number)
    return cids


async def until_told(service: Service, cid: str, replicas: tuple[int, int]) -> dict[str, Any]:
    """What a requestor reads once it is that many replicas of that many."""

    async def is_told() -> dict[str, Any] | None:
        told = await status(service, cid)
        numbers = (told["replicas"]["pinned"], told["replicas"]["wanted"])
        return told if numbers == replicas else None

    return await eventually(is_told, what=f"{cid} is told as {replicas}", seconds=LONG)


async def test_content_removed_from_every_kubo_is_told_and_pinned_again(
    tmp_path: Path, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """Without anybody's doing the requestor reads that nobody holds it; once somebody has it
    again, so does the cluster. The Pinning Service API says so too."""
    async with gateway(tmp_path / "gateway", peers, pins__resync_interval=INTERVAL) as service:
        cids = await pinned(service, kubos[0], b"lost", 6)
        lost, kept = cids[:3], cids[3:]
        assert (await status(service, lost[0]))["replicas"] == {"pinned": 3, "wanted": 3}
        for kubo in kubos:
            for cid in lost:
                await kubo.unpin(cid)
            await kubo.collect_garbage()
        for cid in lost:
            told = await until_told(service, cid, (0, 3))
            assert told["status"] != "pinned"
            answer = await service.psa("GET", f"/pins?cid={cid}&status=queued,pinning,failed")
            assert answer.json["count"] == 1
        for cid in lost:
            assert await peers[0].allocation(cid) is not None
        for number in range(3):
            assert await kubos[1].add_raw(b"lost %d" % number) == lost[number]
        for cid in lost:
            assert (await until(service, cid, "pinned"))["replicas"] == {"pinned": 3, "wanted": 3}
            assert all([await kubo.is_pinned(cid) for kubo in kubos])
        for cid in kept:
            assert (await status(service, cid))["status"] == "pinned"


async def kept_by(peers: Sequence[Cluster], cid: str) -> set[int]:
    """The numbers of the peers that are to keep it."""
    pin = await peers[0].allocation(cid)
    assert pin is not None
    return {number for number, peer in enumerate(peers) if peer.id in pin["allocations"]}


async def test_the_replicas_of_a_peer_that_is_gone_are_reported_and_replaced(
    tmp_path: Path, peers: Sequence[Cluster], kubos: Sequence[Kubo]
) -> None:
    """Where two of three are wanted another peer is found; where all are, those that live are."""
    two = {"pins__replication_min": 2, "pins__resync_interval": INTERVAL}
    every = {"pins__resync_interval": INTERVAL}
    async with (
        gateway(tmp_path / "two", peers, **two) as service,
        gateway(tmp_path / "every", peers, **every) as other,
    ):
        some = await pinned(service, kubos[0], b"two", 12)
        all_of = await pinned(other, kubos[0], b"every", 3)
        keepers = {cid: await kept_by(peers, cid) for cid in some}
        # The cluster gives them to whoever has the most room, which may be the same two.
        dead = max(range(3), key=lambda number: sum(number in each for each in keepers.values()))
        affected = [cid for cid in some if dead in keepers[cid]]
        assert affected
        alive = [kubo for number, kubo in enumerate(kubos) if number != dead]
        await peers[dead].kill9()
        await kubos[dead].stop()
        for cid in all_of:
            await until_told(other, cid, (2, 2))

        async def are_replaced() -> bool:
            return all([await kubo.is_pinned(cid) for kubo in alive for cid in affected])

        await eventually(are_replaced, what="another peer holds them", seconds=LONG)
        for cid in some:
            await until_told(service, cid, (2, 2))
            assert (await until(service, cid, "pinned"))["replicas"]["pinned"] == 2

        async def is_whole() -> ResyncReport | None:
            report = await service.gateway.resync.now()
            return report if report is not None and not report.under_replicated else None

        await eventually(is_whole, what="nothing is under-replicated", seconds=LONG)
