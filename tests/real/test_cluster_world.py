"""The cluster adapter on a real IPFS Cluster: three peers, and three Kubos behind them.

Everything that the miniature in tests/fakes claims about a cluster is asked of the real one
here. One world serves all tests: it takes the peers some seconds to find each other."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.backends.cluster.peers import signed_token
from content_gateway.codecs.multiformats import BASE58BTC
from content_gateway.errors import PinDeferred, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import pin, pinset, status_of
from tests.pins.promises import node, raw
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_clusters, wipe
from tests.world.kubo import Kubo, running_kubos
from tests.world.peers import ask

BATCH_AGE = 1.0
NOBODY_HAS_IT = b"nobody has this, yet"


@dataclass(frozen=True)
class Real:
    """The peers and their Kubos, in the same order."""

    peers: tuple[Cluster, ...]
    kubos: tuple[Kubo, ...]

    async def do(self, method: str, path: str, peer: int = 0) -> tuple[int, str]:
        """What a peer answers to anybody, without our adapter."""
        one = self.peers[peer]
        return await ask(method, one.url + path, headers=one.credentials)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Real]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    async with (
        running_kubos(directory, 3) as kubos,
        running_clusters(directory, kubos, batch_age=BATCH_AGE) as peers,
    ):
        yield Real(tuple(peers), tuple(kubos))


@pytest.fixture
def real(started: Real) -> Real:
    return started


@pytest.fixture
def make(outbound: HttpClient, real: Real) -> Any:
    """Adapters over all three peers."""

    def backend(**options: Any) -> IpfsCluster:
        peer = real.peers[0]
        login = {"username": peer.username, "password": peer.password}
        urls = options.pop("urls", [peer.url for peer in real.peers])
        return IpfsCluster(outbound, urls, **{**login, "batch_age": BATCH_AGE, **options})

    return backend


async def until(backend: IpfsCluster, cid: Cid, *statuses: TrackerStatus) -> BackendStatus:
    """What is seen as soon as it is one of *statuses*."""
    seen: list[BackendStatus] = []

    async def is_so() -> bool:
        seen.append(await status_of(backend, cid))
        return seen[-1].status in statuses

    await eventually(is_so, what=f"{cid} is {statuses}", seconds=40)
    return seen[-1]


async def until_all(backend: IpfsCluster, is_so: Callable[[set[Cid]], bool]) -> None:
    """Return once the pinset is as *is_so* wants: the peer that lists it may be behind others.

    Why the resync looks for what a listing seems to miss."""

    async def is_listed() -> bool:
        return is_so(await pinset(backend))

    await eventually(is_listed, what="the pinset is listed so")


async def test_what_is_not_pinned_is_absent(real: Real, make: Any) -> None:
    """The status of such a CID is 200 and "unpinned" everywhere; `/allocations` says 404."""
    cid = raw(b"never heard of")
    status, text = await real.do("GET", f"/pins/{cid}")
    peers = json.loads(text)["peer_map"].values()
    assert (status, {peer["status"] for peer in peers}) == (200, {"unpinned"})
    assert (await real.do("GET", f"/allocations/{cid}"))[0] == 404
    assert await status_of(make(), cid) == BackendStatus(TrackerStatus.ABSENT)
    await make().unpin(cid)


async def test_a_pin_goes_from_absent_to_pinned_and_back(real: Real, make: Any) -> None:
    """Two peers of three hold it, fetched from the third one's Kubo, and then nobody does."""
    backend = make(replication_min=2, replication_max=2)
    text = await real.kubos[0].add_directory({"index.html": b"<h1>hello</h1>", "a/b": b"deep"})
    cid = Cid.parse(text)
    sent = await pin(backend, cid)
    assert (sent.status, sent.wanted) == (TrackerStatus.QUEUED, 2)
    seen = await until(backend, cid, TrackerStatus.PINNED)
    assert (seen.replicas, seen.wanted) == (2, 2)
    assert {peer.status for peer in seen.peers} == {"pinned"}
    assert len({peer.name for peer in seen.peers} & {"peer0", "peer1", "peer2"}) == 2
    assert all(peer.at for peer in seen.peers)
    assert sum([await kubo.is_pinned(text) for kubo in real.kubos]) == 2
    await until_all(backend, lambda listed: cid in listed)
    await backend.unpin(cid)
    await until(backend, cid, TrackerStatus.ABSENT)
    await until_all(backend, lambda listed: cid not in listed)


async def test_a_change_in_an_open_batch_is_not_seen(real: Real, make: Any) -> None:
    """A pin is accepted and not seen; an unpin in that time finds nothing, and it commits.

    Why a status check counts only when the last change is older than the batch age (traps 3 and
    4)."""
    backend, cid = make(), Cid.parse(await real.kubos[0].add_raw(b"in a batch"))
    await pin(backend, cid)
    assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT
    await backend.unpin(cid)
    await until(backend, cid, TrackerStatus.PINNED)


async def test_everywhere_is_every_peer(real: Real, make: Any) -> None:
    """With -1, and with the cluster's own default, all three peers hold it."""
    for options in ({"replication_min": -1}, {}):
        backend = make(**options)
        cid = Cid.parse(await real.kubos[1].add_raw(f"everywhere {options}".encode()))
        await pin(backend, cid)
        seen = await until(backend, cid, TrackerStatus.PINNED)
        assert (seen.replicas, seen.wanted) == (3, 3)


async def test_content_that_nobody_has_fails_and_recovers(real: Real, make: Any) -> None:
    """Every peer gives up in its time; recover lets them try again when somebody has it."""
    backend, cid = make(), raw(NOBODY_HAS_IT)
    await pin(backend, cid)
    await until(backend, cid, TrackerStatus.PINNING)
    seen = await until(backend, cid, TrackerStatus.FAILED)
    assert seen.reason == "not found in time (peer0, peer1, peer2)"
    assert {peer.error for peer in seen.peers} == {"context canceled"}
    before = await real.peers[0].allocation(str(cid))
    await real.kubos[2].add_raw(NOBODY_HAS_IT)
    again = await pin(backend, cid, seen)
    assert again.status in (TrackerStatus.QUEUED, TrackerStatus.PINNING, TrackerStatus.PINNED)
    await until(backend, cid, TrackerStatus.PINNED)
    # The cluster stamps a pin whenever it is written: recovering has not written it.
    assert await real.peers[0].allocation(str(cid)) == before


async def test_what_a_kubo_lost_is_lost_and_says_so(real: Real, make: Any) -> None:
    """A pin that is gone from a node behind the cluster's back is to be fetched again."""
    backend = make(replication_min=1, replication_max=1)
    text = await real.kubos[0].add_raw(b"lost by a node")
    cid = Cid.parse(text)
    await pin(backend, cid)
    (holder,) = (await until(backend, cid, TrackerStatus.PINNED)).peers
    await real.kubos[int(holder.name[-1])].unpin(text)
    seen = await status_of(backend, cid)
    assert seen.status is TrackerStatus.LOST
    assert seen.reason == f"it was lost and is to be fetched again ({holder.name})"
    await pin(backend, cid, seen)
    await until(backend, cid, TrackerStatus.PINNED)


async def test_the_status_of_many_fits_into_its_requests(real: Real, make: Any) -> None:
    """A hundred and sixty CIDs at once, most of them not there, are all told apart."""
    backend = make(urls=[real.peers[0].url])
    held = [Cid.parse(await real.kubos[0].add_raw(b"many %d" % number)) for number in range(10)]
    for cid in held:
        await pin(backend, cid)
    await until(backend, held[-1], TrackerStatus.PINNED)
    seen = await backend.status([*held, *(raw(b"missing %d" % number) for number in range(150))])
    assert [seen[cid].status for cid in held] == [TrackerStatus.PINNED] * 10
    assert sum(status.status is TrackerStatus.ABSENT for status in seen.values()) == 150


@pytest.mark.parametrize("kind", ["basic", "our token", "their token"])
async def test_every_way_of_login_is_accepted(real: Real, make: Any, kind: str) -> None:
    """Basic, a JWT that we sign, and one that the cluster has made."""
    peer = real.peers[0]
    login: dict[str, Any] = {"jwt": kind == "our token"}
    if kind == "their token":
        _, text = await ask("POST", peer.url + "/token", headers=peer.credentials)
        login = {"username": "", "password": "", "token": json.loads(text)["token"]}
    backend, cid = make(**login), Cid.parse(await real.kubos[0].add_raw(kind.encode()))
    await pin(backend, cid)
    await until(backend, cid, TrackerStatus.PINNED)
    await until_all(backend, lambda listed: cid in listed)


@pytest.mark.parametrize("kind", ["none", "password", "old token", "early token"])
async def test_a_wrong_login_is_an_outage(real: Real, make: Any, kind: str) -> None:
    """Nothing is known, and a person is told why."""
    peer = real.peers[0]
    login: dict[str, Any] = {"username": "", "password": ""}
    if kind == "password":
        login = {"username": peer.username, "password": "wrong"}
    elif kind != "none":
        off = -3600 if kind == "old token" else 3600
        token = signed_token(peer.username, peer.password, time.time() + off)
        login["token"] = token
    with pytest.raises(UpstreamUnavailable, match=r"The cluster (refuses|wants)"):
        await status_of(make(**login), raw(b"secret"))


async def test_more_replicas_than_peers_are_deferred(real: Real, make: Any) -> None:
    """The cluster's own words come along."""
    with pytest.raises(PinDeferred, match="not enough peers to allocate CID"):
        await pin(make(replication_min=9), raw(b"nine of three"))


async def test_a_lesser_pin_of_somebody_else_is_made_whole(real: Real, make: Any) -> None:
    """Pinned directly, a root is "pinned" without its leaf: for us it is absent until it is all."""
    backend = make(replication_min=1, replication_max=1)
    leaf, (root, data) = b"a leaf of somebody's", node([raw(b"a leaf of somebody's")])
    await real.kubos[0].add_block(data, "dag-pb")
    await real.kubos[0].add_raw(leaf)
    # Only a pin by path may be direct: by CID the cluster forgets the mode it was told.
    for query in (f"ipfs/{root}?mode=direct", f"{root}?expire-in=1h"):
        await real.do("POST", f"/pins/{query}&replication-min=1&replication-max=1")

        async def is_pinned() -> bool:
            return "pinned" in (await real.peers[0].status(str(root))).values()

        await eventually(is_pinned, what="pinned by somebody")
        seen = await until(backend, root, TrackerStatus.ABSENT)
        assert seen.reason
        await pin(backend, root, seen)
        (holder,) = (await until(backend, root, TrackerStatus.PINNED)).peers
        kubo = real.kubos[int(holder.name[-1])]
        await eventually(lambda: kubo.is_pinned(str(root)), what="pinned as a whole")  # noqa: B023
        assert await kubo.has_block(str(raw(leaf)))
        await backend.unpin(root)
        await until(backend, root, TrackerStatus.ABSENT)


async def test_a_pin_of_version_0_is_another_than_ours(real: Real, make: Any) -> None:
    """A stranger's version 0 pin does not pass for ours of the same content, which is listed."""
    backend, (cid, data) = make(), node([], b"v0")
    await real.kubos[0].add_block(data, "dag-pb")
    await real.do("POST", f"/pins/{BASE58BTC.encode(cid.multihash)}")

    assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT
    assert cid not in await pinset(backend)
    await pin(backend, cid)
    await until(backend, cid, TrackerStatus.PINNED)
    await until_all(backend, lambda listed: cid in listed)


async def test_one_peer_may_die(real: Real, make: Any) -> None:
    """Writes and status checks go on over the others; what the dead one holds is unknown."""
    backend = make()
    cids = [Cid.parse(await real.kubos[0].add_raw(b"survives %d" % n)) for n in range(6)]
    for cid in cids:
        await pin(backend, cid)
    for cid in cids:
        await until(backend, cid, TrackerStatus.PINNED)
    await real.peers[2].kill9()
    try:
        seen = await backend.status(cids)
        # A peer that does not answer is left out once its last sign of life is too old.
        allowed = {TrackerStatus.UNKNOWN, TrackerStatus.PINNED}
        assert {status.status for status in seen.values()} <= allowed
        assert all(status.replicas == 2 for status in seen.values())
        for peer in real.peers[:2]:
            await peer.until_missed(real.peers[2])
        later = [Cid.parse(await real.kubos[0].add_raw(b"later %d" % n)) for n in range(6)]
        for cid in later:
            await pin(make(replication_min=1, replication_max=1), cid)
        for cid in later:
            await until(make(replication_min=1), cid, TrackerStatus.PINNED)
        await until_all(backend, set(later).issubset)
    finally:
        await real.peers[2].start()
    for cid in cids:
        await until(backend, cid, TrackerStatus.PINNED)


async def test_a_wiped_cluster_has_nothing_and_takes_it_all_again(real: Real, make: Any) -> None:
    """When its state is gone every content is absent, by positive word; sent again it is there."""
    backend, cid = make(), Cid.parse(await real.kubos[0].add_raw(b"before the flood"))
    await pin(backend, cid)
    await until(backend, cid, TrackerStatus.PINNED)
    await wipe(real.peers)
    assert await pinset(backend) == set()
    assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT
    await pin(backend, cid)
    await until(backend, cid, TrackerStatus.PINNED)
    await until_all(backend, lambda listed: listed == {cid})


async def test_nobody_there_is_an_outage(real: Real, make: Any) -> None:
    """All peers stopped: no call says anything about a content."""
    backend, cid = make(), raw(b"in the dark")
    await asyncio.gather(*(peer.stop() for peer in real.peers))
    try:
        for call in (status_of(backend, cid), pin(backend, cid), backend.unpin(cid)):
            with pytest.raises(UpstreamUnavailable):
                await call
        with pytest.raises(UpstreamUnavailable):
            await pinset(backend)
    finally:
        await asyncio.gather(*(peer.start() for peer in real.peers))
