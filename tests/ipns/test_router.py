"""Delegated routers behind the resolver: nothing of them is believed unverified, nor waited for."""

from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.sources.http import HttpSource
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock, at_once
from tests.fakes.origin import Origin
from tests.ipns.signing import PATH, Signer
from tests.ipns.sources import resolver_of

SIGNER = Signer()
NAME = SIGNER.name
FOUND = IpfsPath(Cid.parse(PATH.decode().removeprefix("/ipfs/")))


async def test_the_resolver_believes_only_what_proves_itself(
    outbound: HttpClient, origin: Origin, other: Origin
) -> None:
    """One router serves somebody else's record, the other the right one: that one counts."""
    origin.records[NAME.text] = Signer(2).record()
    other.records[NAME.text] = SIGNER.record()
    routers = [HttpSource.router(outbound, one.url, seconds=1) for one in (origin, other)]
    resolver = resolver_of(*routers)
    assert await resolver.latest(NAME) == FOUND
    await resolver.close()
    assert len(origin.requests) == len(other.requests) == 1


async def test_a_router_that_hangs_delays_nobody_for_long(
    outbound: HttpClient, origin: Origin
) -> None:
    """The first request waits for `first_wait` seconds at most, however long the router takes."""
    origin.misbehave("hang")
    router = HttpSource.router(outbound, origin.url, seconds=60)
    clock = Clock()
    resolver = resolver_of(router, policy=IpnsPolicy(first_wait=0.1), clock=clock)
    assert await resolver.latest(NAME) is None
    clock.pass_(1)
    assert await at_once(resolver.latest(NAME)) is None
    await resolver.close()
