"""The cluster adapter over a miniature cluster: what it asks and sends, and which answers it
accepts."""

from dataclasses import replace
from hashlib import sha256

import pytest

from content_gateway.codecs.multiformats import BASE58BTC, IDENTITY, SHA2_256
from content_gateway.errors import (
    InvalidUpstreamResponse,
    PinDeferred,
    PinFailed,
    UpstreamError,
)
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from tests.backends.backends import pin, pinset, status_of
from tests.backends.cluster_world import World
from tests.fakes.cluster import MiniPin


async def test_status_checks_go_in_batches_and_fit_into_a_request(world: World) -> None:
    """A hundred and twenty CIDs take few calls, none longer than the cluster reads."""
    cids = [world.content(number) for number in range(120)]
    for cid in cids:
        world.cluster.pin(world.cluster.peers[0], MiniPin(str(cid), 0, 0))
    seen = await world.backend().status(cids)
    assert {status.status for status in seen.values()} == {TrackerStatus.PINNED}
    assert list(seen) == cids
    assert world.rest.counts["statuses"] <= 6
    assert world.rest.counts["status"] == 0
    alone = world.backend(world.urls[:1])
    world.rest.counts.clear()
    await alone.status(cids)
    assert world.rest.counts["statuses"] == 3


async def test_no_peer_is_asked_about_what_is_not_in_the_pinset(world: World) -> None:
    """GET /pins would ask every peer, and those their nodes; an allocation is read from memory."""
    cids = [world.content(number) for number in range(20)]
    seen = await world.backend().status(cids, {}, cids)
    assert {status.status for status in seen.values()} == {TrackerStatus.ABSENT}
    assert world.rest.counts == {"allocation": 20}


async def test_long_cids_fit_into_a_request_too(world: World) -> None:
    """Fifty identity CIDs of 128 bytes each are asked for in shorter batches."""
    cids = [Cid(RAW, IDENTITY, bytes([number]) * 128) for number in range(50)]
    seen = await world.backend(world.urls[:1]).status(cids)
    assert {status.status for status in seen.values()} == {TrackerStatus.ABSENT}


async def test_only_doubtful_pins_are_read_one_by_one(world: World) -> None:
    """What is queued or on its way is told by its status alone; absence and pinned are checked."""
    backend = world.backend()
    cid = world.content()
    world.cluster.queue_seconds = 60
    await pin(backend, cid)
    assert (await status_of(backend, cid)).status is TrackerStatus.QUEUED
    assert world.rest.counts["allocation"] == 0


async def test_what_looks_absent_and_is_in_the_pinset_is_not_absent(world: World) -> None:
    """Every peer may say "unpinned" of a pin in the pinset, as when one of them has just released
    it: the pinset decides."""
    backend, cid = world.backend(), world.content()
    await pin(backend, cid)
    world.rest.blind_to.add(str(cid))
    assert (await status_of(backend, cid)).status is TrackerStatus.UNTRACKED


async def test_a_status_tells_of_every_peer(world: World) -> None:
    """Replicas, how many are wanted, and each allocated peer's name and word."""
    backend = world.backend(replication_min=2)
    cid = world.content()
    assert await pin(backend, cid) == BackendStatus(TrackerStatus.QUEUED, 0, 2)
    seen = await status_of(backend, cid)
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.PINNED, 2, 2)
    assert [peer.status for peer in seen.peers] == ["pinned", "pinned"]
    assert all(peer.at is not None for peer in seen.peers)


async def test_without_a_factor_of_ours_the_cluster_says_how_many_are_enough(
    world: World,
) -> None:
    """Two of three with its default of 2 to 3, and every peer with its default of -1."""
    world.cluster.factors = (2, 3)
    backend, cid = world.backend(), world.content()
    assert (await pin(backend, cid)).wanted == 2
    world.cluster.lose(world.cluster.peers[0], str(cid))
    seen = await status_of(backend, cid)
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.PINNED, 2, 2)
    world.cluster.factors = (-1, -1)
    everywhere = world.content(1)
    await pin(backend, everywhere)
    assert (await status_of(backend, everywhere)).wanted == 3
    world.cluster.lose(world.cluster.peers[0], str(everywhere))
    seen = await status_of(backend, everywhere)
    assert (seen.status, seen.replicas) == (TrackerStatus.LOST, 2)
    assert seen.reason == "it was lost and is to be fetched again (peer0)"


async def test_factors_go_along_and_only_when_there_are_any(world: World) -> None:
    """The options of a POST are the factors and nothing else; a single one stands for both."""
    for options, query in (
        ({}, ""),
        ({"replication_min": 2}, "?replication-min=2&replication-max=2"),
        ({"replication_min": 1, "replication_max": 3}, "?replication-min=1&replication-max=3"),
        ({"replication_min": -1}, "?replication-min=-1&replication-max=-1"),
    ):
        cid = world.content(len(query))
        await pin(world.backend(world.urls[:1], **options), cid)
        assert world.servers[0].requests[-1] == f"/pins/{cid}{query}"


async def test_one_content_that_cannot_be_told_does_not_hide_the_others(world: World) -> None:
    """The cluster leaves out what it could not find out about: that one is unknown."""
    backend = world.backend(world.urls[:1])
    known, unknown = world.content(1), world.content(2)
    await pin(backend, known)
    await pin(backend, unknown)
    world.rest.silent_about.add(str(unknown))
    seen = await backend.status([known, unknown])
    assert seen[known].status is TrackerStatus.PINNED
    assert seen[unknown].status is TrackerStatus.UNKNOWN
    assert seen[unknown].reason


async def test_a_failed_pin_is_recovered_and_not_sent_again(world: World) -> None:
    """Another POST would write the pin again and broadcast it; recover only lets peers try."""
    backend = world.backend()
    data = b"late"
    cid = Cid(RAW, SHA2_256, sha256(data).digest())
    await pin(backend, cid)
    world.cluster.clock.pass_(60)  # type: ignore[attr-defined]
    seen = await status_of(backend, cid)
    assert seen.status is TrackerStatus.FAILED
    assert seen.reason == "not found in time (peer0, peer1, peer2)"
    assert (await pin(backend, cid, seen)).status is TrackerStatus.PINNING
    world.cluster.provide(cid, data)
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED
    assert (world.rest.counts["pin"], world.rest.counts["recover"]) == (1, 1)


async def test_a_pin_in_an_open_batch_is_not_seen_and_may_be_lost(world: World) -> None:
    """Why a status check counts only when the last change is older than the batch age."""
    world.cluster.batch_age = 60
    backend, cid = world.backend(batch_age=60), world.content()
    assert backend.batch_age == 65  # the longest call, and the batch behind it
    assert (await pin(backend, cid)).status is TrackerStatus.QUEUED
    assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT
    await backend.unpin(cid)  # 404, and no error
    world.cluster.clock.pass_(61)  # type: ignore[attr-defined]
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED


async def test_what_the_cluster_cannot_take_now_is_deferred(world: World) -> None:
    """A 500 is about this content and this moment; its words are kept."""
    backend = world.backend(replication_min=3)
    cid = world.content()
    world.cluster.kill(world.cluster.peers[2])
    world.cluster.clock.pass_(31)  # type: ignore[attr-defined] # its metrics are no longer good
    with pytest.raises(PinDeferred, match="not enough peers to allocate CID"):
        await pin(backend, cid)
    world.cluster.refusal = "error batching item: batching max_queue_size reached."
    for call in (pin(backend, cid), backend.unpin(cid)):
        with pytest.raises(PinDeferred, match="max_queue_size reached"):
            await call


async def test_what_the_cluster_refuses_has_failed(world: World) -> None:
    """A 400 is about the content for good; that it pinned all the same is not believed."""
    backend = world.backend(world.urls[:1])
    world.rest.refuses_options = True
    cid = world.content()
    with pytest.raises(PinFailed, match="parameter replication-min invalid"):
        await pin(backend, cid)
    assert str(cid) in world.cluster.peers[0].state


@pytest.mark.parametrize(
    "lesser",
    [MiniPin("", 0, 0, mode="direct"), MiniPin("", 0, 0, expires="2030-01-01T00:00:00Z")],
    ids=["direct", "expiring"],
)
async def test_a_lesser_pin_of_somebody_else_is_not_enough(world: World, lesser: MiniPin) -> None:
    """A direct or expiring pin is "pinned" to the cluster, and ABSENT here. Pinned again it becomes
    recursive and without end."""
    backend, cid = world.backend(), world.content()
    world.cluster.pin(world.cluster.peers[0], replace(lesser, cid=str(cid)))
    seen = await status_of(backend, cid)
    assert seen.status is TrackerStatus.ABSENT
    await pin(backend, cid, seen)
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED


async def test_content_added_in_shards_is_no_pin_of_ours(world: World) -> None:
    """Its root is in the pinset as something else, which nobody can vouch for."""
    backend, cid = world.backend(), world.content()
    world.cluster.pin(world.cluster.peers[0], MiniPin(str(cid), 0, 0, kind="meta-pin"))
    assert (await status_of(backend, cid)).status is TrackerStatus.UNKNOWN
    assert [cid async for cid in backend.pinset()] == []


async def test_the_pinset_has_what_could_be_ours(world: World) -> None:
    """A version 0 pin is another than ours of that content, one that ends or is not recursive is
    less than was promised, and a codec that we do not accept stops nothing."""
    backend = world.backend(world.urls[:1])
    assert [cid async for cid in backend.pinset()] == []
    cid = Cid(DAG_PB, SHA2_256, sha256(b"").digest())
    for text, more in (
        (BASE58BTC.encode(cid.multihash), ""),
        ("bahlqcera" + "a" * 50, ""),
        (str(cid), ', "mode": "direct"'),
        (str(cid), ', "expire_at": "2026-12-01T00:00:00Z"'),
    ):
        pin_ = f'{{"cid": "{text}", "type": "pin", "allocations": []{more}}}'
        world.rest.unmanaged.append(pin_)
    raw = world.content()
    await pin(backend, raw)
    assert await pinset(backend) == {raw}


async def test_half_a_pinset_never_passes_for_all(world: World) -> None:
    """Where the stream is cut, or a line is no pin, the reader hears of it."""
    backend = world.backend(world.urls[:1])
    for number in range(4):
        await pin(backend, world.content(number))
    world.servers[0].cut_after = 2
    with pytest.raises(UpstreamError):
        await pinset(backend)
    world.servers[0].cut_after = None
    world.rest.unmanaged.append('{"code": 500, "message": "datastore closed"}')
    with pytest.raises(InvalidUpstreamResponse):
        await pinset(backend)


async def test_an_older_pin_that_is_about_to_go_is_no_proof_of_the_newer_one(world: World) -> None:
    """Released and pinned again in one batch: the content may go with the old pin, so that its
    status is asked for again once the batch is closed."""
    clock = world.cluster.clock
    world.cluster.pin_seconds = 2.0
    backend, cid = world.backend(batch_age=60, clock=clock), world.content()
    await pin(backend, cid)
    clock.pass_(100)  # type: ignore[attr-defined]
    world.cluster.batch_age = 60
    await backend.unpin(cid)
    await pin(backend, cid)
    assert (await backend.status([cid], {cid: 1.0}))[cid].status is TrackerStatus.PINNED
    clock.pass_(66)  # type: ignore[attr-defined]
    assert (await backend.status([cid], {cid: 1.0}))[cid].status is TrackerStatus.PINNING
