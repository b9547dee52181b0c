"""What the peers of a cluster have in progress: at a few of them, or at most."""

import pytest

from content_gateway.backends.cluster.in_progress import read_line
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError
from tests.backends.backends import pin
from tests.backends.cluster_world import World
from tests.fakes.cluster import MiniPin

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


async def test_what_nobody_has_is_in_progress_at_most_peers(world: World) -> None:
    """Whoever sent it, queued or begun; what is pinned is not in progress."""
    backend, held = world.backend(), world.content(1)
    await pin(backend, held)
    missing = world.content(2)
    world.cluster.forget(missing)
    world.cluster.pin(world.cluster.peers[0], MiniPin(str(missing), -1, -1))
    assert await backend.in_progress() == {str(missing): True}


async def test_what_hangs_at_one_peer_is_in_progress_at_a_few(world: World) -> None:
    """One node fetches nothing; the others have pinned it."""
    world.cluster.peers[2].is_hung = True
    cid = world.content()
    await pin(world.backend(), cid)
    assert await world.backend().in_progress() == {str(cid): False}


async def test_peers_that_are_named_are_counted_and_no_others(world: World) -> None:
    """Both peers of its allocation hang: that is most of them, though there are three peers."""
    for peer in world.cluster.peers:
        peer.is_hung = True
    cid = world.content()
    await pin(world.backend(replication_min=2, replication_max=2), cid)
    assert await world.backend().in_progress() == {str(cid): True}


async def test_an_outage_is_not_an_empty_queue(world: World) -> None:
    for peer in world.cluster.peers:
        peer.is_dark = True
    with pytest.raises(UpstreamError):
        await world.backend().in_progress()


def test_a_line_says_how_many_have_it_in_progress() -> None:
    """A peer that could not be asked stands there with an error, and is not counted."""
    said = {"a": {"status": "pinning"}, "b": {"status": "pin_queued"}, "c": {"status": "remote"}}
    unheard = {"d": {"status": "cluster_error"}}
    line = {"cid": CID, "allocations": ["a", "b"], "peer_map": said | unheard}
    assert read_line(line) == (CID, 2, 2)
    assert read_line(line | {"allocations": None}) == (CID, 2, 0)


@pytest.mark.parametrize("wrong", [{"cid": 7}, {"peer_map": []}, {"allocations": "a"}])
def test_a_line_that_is_none_is_told(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        read_line({"cid": CID, "allocations": [], "peer_map": {}} | wrong)
