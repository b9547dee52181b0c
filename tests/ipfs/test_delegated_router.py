"""The delegated router: a record, none, or an outage; and nothing of it believed unverified."""

from time import monotonic

import pytest

from content_gateway.content.cid import Cid
from content_gateway.content.ipns_name import MAX_RECORD_BYTES
from content_gateway.errors import (
    UpstreamError,
    UpstreamNonsense,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ipfs.delegated_router import DelegatedRouter
from content_gateway.ipns.resolver import IpnsResolver, Policy
from content_gateway.outbound import Outbound
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.ipns.signing import NOW, PATH, Signer

SIGNER = Signer()
NAME = SIGNER.name
CID = Cid.parse(PATH.decode().removeprefix("/ipfs/"))


@pytest.fixture
def router(outbound: Outbound, origin: Origin) -> DelegatedRouter:
    return DelegatedRouter(outbound, origin.url + "/", seconds=0.3)


async def test_a_record_is_handed_on_as_it_is(router: DelegatedRouter, origin: Origin) -> None:
    """It is asked for by the canonical name, in the media type of Delegated Routing V1."""
    origin.records[NAME.text] = SIGNER.record()
    assert await router.record(NAME) == SIGNER.record()
    assert origin.requests == [f"/routing/v1/ipns/{NAME}"]


@pytest.mark.parametrize("mood", ["well", "html", "404", "redirect"])
async def test_no_record_is_none(router: DelegatedRouter, origin: Origin, mood: Mood) -> None:
    """404, and anything that is not of the record's media type, mean that there is none."""
    origin.misbehave(mood)
    assert await router.record(NAME) is None


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("dark", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("huge", UpstreamNonsense),
        ("garbage", UpstreamNonsense),
        ("cut", UpstreamUnavailable),
        ("429", UpstreamUnavailable),
        ("500", UpstreamUnavailable),
        ("503", UpstreamUnavailable),
    ],
)
async def test_an_outage_is_not_an_absence(
    router: DelegatedRouter, origin: Origin, mood: Mood, error: type[UpstreamError]
) -> None:
    """A router that fails has not said that there is no record."""
    origin.misbehave(mood)
    begun = monotonic()
    with pytest.raises(error):
        await router.record(NAME)
    assert monotonic() - begun < 2


async def test_a_record_is_at_most_10_kib(router: DelegatedRouter, origin: Origin) -> None:
    """More than the specification allows is not even read to its end."""
    origin.records[NAME.text] = bytes(MAX_RECORD_BYTES)
    assert await router.record(NAME) == bytes(MAX_RECORD_BYTES)
    origin.records[NAME.text] += b"\0"
    with pytest.raises(UpstreamNonsense):
        await router.record(NAME)


async def test_the_resolver_believes_only_what_proves_itself(
    outbound: Outbound, origin: Origin, other: Origin
) -> None:
    """One router serves somebody else's record, the other the right one: that one counts."""
    origin.records[NAME.text] = Signer(2).record()
    other.records[NAME.text] = SIGNER.record()
    routers = [DelegatedRouter(outbound, one.url, seconds=1) for one in (origin, other)]
    resolver = IpnsResolver(routers, today=lambda: NOW)
    assert await resolver.latest(NAME) == CID
    await resolver.close()
    assert len(origin.requests) == len(other.requests) == 1


async def test_a_router_that_hangs_delays_nobody_for_long(
    outbound: Outbound, origin: Origin
) -> None:
    """The first request waits its moment and no more, however long the router takes."""
    origin.misbehave("hang")
    router = DelegatedRouter(outbound, origin.url, seconds=5)
    resolver = IpnsResolver([router], policy=Policy(first_wait=0.1), today=lambda: NOW)
    begun = monotonic()
    assert await resolver.latest(NAME) is None
    assert 0.09 < monotonic() - begun < 1
    begun = monotonic()
    assert await resolver.latest(NAME) is None
    assert monotonic() - begun < 0.09
    await resolver.close()
