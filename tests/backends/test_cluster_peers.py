"""The peers of a cluster: who is asked, how we prove who we are, and what an outage is."""

import asyncio
import time
from typing import Any

import pytest

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.backends.cluster.peers import SKIP_SECONDS, signed_token
from content_gateway.errors import (
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    WrongSettings,
)
from content_gateway.model.content_state import TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import FAILED, pin, pinset, status_of
from tests.backends.cluster_world import World
from tests.fakes.miniature import Mood
from tests.waiting import until


def test_a_cluster_without_peers_is_a_wrong_setting() -> None:
    with pytest.raises(WrongSettings):
        IpfsCluster(HttpClient(), [])


async def test_all_writes_go_to_the_first_peer(world: World) -> None:
    """Pin, recover and unpin of one CID keep their order there, and the CRDT gets no concurrent
    heads that all peers would have to merge."""
    backend = world.backend()
    for number in range(30):
        cid = world.content(number)
        await pin(backend, cid)
        await pin(backend, cid, FAILED)
        await backend.unpin(cid)
    assert {peer for _, _, peer in world.rest.writes} == {"peer0"}


async def test_a_status_check_asks_the_peer_that_was_written_to(world: World) -> None:
    """The others see a change later, and would call the pin absent."""
    world.cluster.spread_seconds = 3600
    backend = world.backend()
    cids = [world.content(number) for number in range(12)]
    for cid in cids:
        await pin(backend, cid)
    seen = await backend.status(cids)
    assert TrackerStatus.ABSENT not in {status.status for status in seen.values()}


async def test_a_release_reaches_a_peer_that_does_not_hear_of_it(world: World) -> None:
    """It is not absent while another peer still has its pin, and is released there once asked for
    again: peers of a real cluster may not hear of each other for many minutes."""
    backend, cid = world.backend(), world.content()
    await pin(backend, cid)
    world.cluster.catch_up()
    deaf = world.cluster.peers[2]
    deaf.is_partitioned = True
    await backend.unpin(cid)
    seen = await status_of(backend, cid)
    assert seen.status is TrackerStatus.UNTRACKED
    assert seen.reason == "Not every peer of the cluster has heard of its last change."
    assert str(cid) in deaf.state
    await backend.unpin(cid)
    assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT
    assert str(cid) not in deaf.state
    assert not world.cluster.keeps(cid)


async def test_a_peer_that_is_gone_keeps_no_release_from_its_end(world: World) -> None:
    """Whether it has heard of it cannot be asked; when it comes back, it does."""
    backend, cid = world.backend(), world.content()
    await pin(backend, cid)
    world.cluster.catch_up()
    world.servers[1].go_dark()
    for _ in range(2):
        await backend.unpin(cid)
        assert (await status_of(backend, cid)).status is TrackerStatus.ABSENT


async def test_one_peer_is_believed_of_what_was_never_pinned(world: World) -> None:
    """Of a content that nobody has asked for, one answer is enough; of another, all peers'."""
    backend = world.backend()
    new, old = world.content(1), world.content(2)
    await backend.status([new], {}, {new})
    assert world.rest.asked["allocation", str(new)] == 1
    await backend.status([old])
    assert world.rest.asked["allocation", str(old)] == 3


async def test_when_a_peer_is_down_the_next_is_asked(world: World) -> None:
    """Status checks, pins, unpins and the pinset work while one of three peers answers."""
    backend = world.backend()
    held = [world.content(number) for number in range(9)]
    for cid in held:
        await pin(backend, cid)
    for server in world.servers[:2]:
        server.go_dark()
    seen = await backend.status(held)
    assert {status.status for status in seen.values()} == {TrackerStatus.PINNED}
    assert await pinset(backend) == set(held)
    for cid in held:
        await backend.unpin(cid)
        await pin(backend, cid)
    assert {peer for _, _, peer in world.rest.writes[-18:]} == {"peer2"}


async def test_a_peer_that_failed_is_left_alone_for_a_while(world: World) -> None:
    """One call finds out; the next ones do not try until some seconds have passed, then one."""
    backend = world.backend()
    cids = [world.content(number) for number in range(20)]
    world.servers[0].go_dark()
    await backend.status(cids)
    asked = len(world.servers[0].requests)
    await backend.status(cids)
    assert len(world.servers[0].requests) == asked
    world.clock.pass_(SKIP_SECONDS + 1)
    world.servers[0].come_back()
    await backend.status(cids)
    await backend.status(cids)
    assert len(world.servers[0].requests) > asked
    world.servers[1].go_dark()
    world.servers[2].go_dark()
    assert (await status_of(backend, cids[0])).status is TrackerStatus.ABSENT


@pytest.mark.parametrize("mood", ["dark", "hang", "garbage", "html", "503", "429", "404", "cut"])
async def test_an_outage_is_never_absence(world: World, mood: Mood) -> None:
    """However the cluster is unreachable, no call takes it for an answer about a content."""
    backend, cid = world.backend(seconds=0.3, status_seconds=0.3), world.content()
    await pin(backend, cid)
    for server in world.servers:
        server.misbehave(mood)
    with pytest.raises(UpstreamError):
        await status_of(backend, cid)
    for call in (backend.unpin(cid), pin(backend, cid), pin(backend, cid, FAILED)):
        with pytest.raises((UpstreamUnavailable, UpstreamTimeout)):
            await call
    if mood != "hang":  # the pinset has a minute
        with pytest.raises(UpstreamError):
            await pinset(backend)
    for server in world.servers:
        server.come_back()
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED


async def test_a_url_that_is_no_cluster_is_not_absence(world: World) -> None:
    """A 404 in other words than the cluster's own says nothing about the pinset."""
    backend = world.backend([world.urls[0] + "/elsewhere"])
    with pytest.raises(UpstreamError):
        await status_of(backend, world.content())
    with pytest.raises(UpstreamUnavailable):
        await backend.unpin(world.content())


async def test_peers_that_are_away_leave_doubt_and_not_failure(world: World) -> None:
    """Without the dead peer's status there are too few replicas for PINNED, and none has failed."""
    backend, cid = world.backend(), world.content()
    await pin(backend, cid)
    dead = world.cluster.peers[1]
    world.cluster.kill(dead)
    seen = await status_of(backend, cid)
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.UNKNOWN, 2, 3)
    assert seen.reason == "the peer of the cluster could not say what it has (peer1)"
    assert [peer.status for peer in seen.peers].count("pinned") == 2
    assert not any("10.0.0.7" in (peer.error or "") for peer in seen.peers)


@pytest.mark.parametrize("kind", ["basic", "jwt", "token"])
async def test_every_way_of_login_is_understood(world: World, kind: str) -> None:
    """Basic, a token of our own, or one that was given to us."""
    world.cluster.login = username, password = "gateway", "päss:word"
    login: dict[str, Any] = {"username": username, "password": password, "jwt": kind == "jwt"}
    if kind == "token":
        login = {"token": signed_token(username, password, time.time())}
    backend, cid = world.backend(**login), world.content()
    await pin(backend, cid)
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED
    assert await pinset(backend) == {cid}


async def test_a_token_of_our_own_ends_soon(world: World) -> None:
    """Whoever gets hold of one can use it for minutes only."""
    world.cluster.login = ("gateway", "secret")
    old = signed_token("gateway", "secret", time.time() - 3600)
    with pytest.raises(UpstreamUnavailable, match="refuses our token"):
        await status_of(world.backend(token=old), world.content())


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ({}, "wants a user name and password, and we have none"),
        ({"username": "gateway", "password": "wrong"}, "refuses our user name and password"),
        ({"username": "gateway", "password": "wrong", "jwt": True}, "refuses our user name"),
        ({"token": "e30.e30.x"}, "refuses our token"),
    ],
)
async def test_a_refused_login_is_an_outage_that_says_so(
    world: World, login: dict[str, Any], message: str
) -> None:
    """No content is blamed, and the reason names the login, also beside a peer that is down."""
    world.cluster.login = ("gateway", "right")
    world.servers[0].go_dark()
    backend, cid = world.backend(**login), world.content()
    for call in (status_of(backend, cid), pin(backend, cid), backend.unpin(cid), pinset(backend)):
        with pytest.raises(UpstreamUnavailable, match=message) as caught:
            await call
        assert "wrong" not in caught.value.detail


async def test_an_answer_that_gets_lost_is_an_outage_and_the_pin_is_there(world: World) -> None:
    """The cluster took it and hung up: the next status check finds it, nothing is sent twice."""
    backend, cid = world.backend(world.urls[:1]), world.content()
    world.cluster.peers[0].loses_answers = True
    with pytest.raises(UpstreamUnavailable):
        await pin(backend, cid)
    world.cluster.peers[0].loses_answers = False
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED


async def test_a_cancelled_status_check_leaves_nothing_behind(world: World) -> None:
    """Its calls end with it, and its connections are free again."""
    backend = world.backend()
    for server in world.servers:
        server.misbehave("hang")
    before = len(asyncio.all_tasks())
    task = asyncio.create_task(backend.status([world.content(number) for number in range(40)]))
    await until(lambda: all(server.requests for server in world.servers))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for server in world.servers:
        server.come_back()
    await until(lambda: len(asyncio.all_tasks()) <= before + 6)
    assert (await status_of(backend, world.content())).status is TrackerStatus.ABSENT


@pytest.mark.parametrize("mood", ["dark", "503", "429", "garbage"])
async def test_a_listing_comes_from_the_first_peer_that_gives_one(world: World, mood: Mood) -> None:
    """Two peers that do not answer are passed over; what the third one lists is all of it."""
    backend, cid = world.backend(), world.content()
    await pin(backend, cid)
    for well in world.servers:
        for server in world.servers:
            server.misbehave("well" if server is well else mood)
        assert await pinset(world.backend()) == {cid}
