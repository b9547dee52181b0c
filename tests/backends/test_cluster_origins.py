"""Origins and addresses, between the cluster adapter and a miniature cluster."""

from urllib.parse import quote

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from tests.backends.backends import ABSENT, FAILED, PEER, origin, pin, silent, status_of
from tests.backends.cluster_world import World
from tests.fakes.cluster_rest import MOST_HEADER_BYTES


def kept(world: World, cid: Cid) -> tuple[str, ...]:
    return world.cluster.peers[0].state[str(cid)].origins


def unknown(world: World) -> Cid:
    """A content that only somebody at an origin has."""
    cid = world.content()
    world.cluster.forget(cid)
    world.cluster.origins[origin(1).text] = {cid}
    return cid


async def test_origins_go_with_the_pin(world: World) -> None:
    """Its peers connect to them, and have what nobody else has."""
    cid = unknown(world)
    backend = world.backend(replication_min=2)
    await backend.pin(cid, ABSENT, silent, [origin(1)])
    assert kept(world, cid) == (origin(1).text,)
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED


async def test_what_the_cluster_would_not_use_is_not_sent(world: World) -> None:
    """No gateways, no more than ten, and no more than a request has room for."""
    cid = world.content()
    gateway = Multiaddr.parse("/ip4/8.8.8.8/tcp/80/http")
    await world.backend().pin(cid, ABSENT, silent, [gateway, *map(origin, range(20))])
    assert kept(world, cid) == tuple(origin(number).text for number in range(10))
    names = [Multiaddr.parse(f"/dns4/{'a.' * 100}{n}.example/tcp/1/p2p/{PEER}") for n in range(20)]
    cid = world.content(1)
    await world.backend().pin(cid, ABSENT, silent, names)
    assert 5 < len(kept(world, cid)) < 10
    assert len(quote(",".join(kept(world, cid)))) < MOST_HEADER_BYTES - 1200


async def test_a_pin_that_failed_hears_of_new_origins(world: World) -> None:
    """It is written again with them; and where it has them, it is recovered and not written."""
    cid = unknown(world)
    world.cluster.pin_timeout = 0.0
    backend = world.backend()
    await pin(backend, cid)
    assert (await status_of(backend, cid)).status is TrackerStatus.FAILED
    await backend.pin(cid, FAILED, silent, [])
    assert world.rest.counts["recover"] == 1
    await backend.pin(cid, FAILED, silent, [origin(1)])
    assert (world.rest.counts["recover"], world.rest.counts["pin"]) == (1, 2)
    assert (await status_of(backend, cid)).status is TrackerStatus.PINNED
    world.cluster.origins.clear()
    await backend.pin(cid, FAILED, silent, [origin(1)])
    assert (world.rest.counts["recover"], world.rest.counts["pin"]) == (2, 2)


async def test_the_nodes_of_all_peers_have_addresses(world: World) -> None:
    """Those that the cluster tells; a peer that is unreachable, or whose node is, has none."""
    for number, peer in enumerate(world.cluster.peers):
        peer.addresses = [origin(number).text]
    world.cluster.peers[1].has_ipfs = False
    assert await world.backend().addresses() == [origin(0).text, origin(2).text]
    world.cluster.kill(world.cluster.peers[2])
    assert await world.backend(world.urls[:1]).addresses() == [origin(0).text]
