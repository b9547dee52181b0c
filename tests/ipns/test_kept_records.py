"""Records that are handed on: how old they are, who waits for them, and what it means that there is
none."""

import asyncio
from datetime import timedelta

import pytest

from content_gateway.errors import Overloaded, UpstreamTimeout, UpstreamUnavailable
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.resolver import IpnsResolver, KeptRecord
from tests.clock import NOW, Clock, let_tasks_run
from tests.ipns.signing import Signer, data, when
from tests.ipns.sources import Memory, Source, later, resolver_of

SIGNER = Signer()
NAME = SIGNER.name
FIVE_MINUTES = timedelta(minutes=5)
POLICY = IpnsPolicy(first_wait=60, kept_record=4096)


def record(sequence: int = 1, ttl: int | None = 300, valid: float = 48 * 3600) -> bytes:
    """A record of the name; *ttl* and *valid* in seconds from the tests' beginning."""
    until = when(NOW + timedelta(seconds=valid))
    nanoseconds = None if ttl is None else ttl * 10**9
    return SIGNER.record(data(Sequence=sequence, TTL=nanoseconds, Validity=until))


@pytest.fixture
def resolver(source: Source, clock: Clock) -> IpnsResolver:
    return resolver_of(source, clock=clock, policy=POLICY)


async def test_its_age_counts_from_when_a_source_had_it(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """One that is stale is told at once and looked up again; a source that fails makes none
    younger."""
    first = source.records[NAME] = record()
    assert await resolver.record(NAME) == KeptRecord(first, FIVE_MINUTES, timedelta(0))
    await let_tasks_run()
    clock.pass_(100)
    assert await resolver.record(NAME) == KeptRecord(first, FIVE_MINUTES, timedelta(seconds=100))
    source.down = True
    for age in (400, 700, 1000):
        clock.pass_(300)
        assert await resolver.record(NAME) == KeptRecord(
            first, FIVE_MINUTES, timedelta(seconds=age)
        )
        await let_tasks_run()
    source.down = False
    second = source.records[NAME] = record(2)
    clock.pass_(300)
    await resolver.record(NAME)
    await let_tasks_run()
    assert await resolver.record(NAME) == KeptRecord(second, FIVE_MINUTES, timedelta(0))
    assert len(source.asked) == 5


@pytest.mark.parametrize(
    ("served", "seconds"),
    [(record(ttl=None), 60), (record(valid=200), 200), (record(ttl=10**6), 48 * 3600)],
    ids=["says nothing", "ends sooner", "lives longer"],
)
async def test_it_is_cached_no_longer_than_it_is_valid(
    resolver: IpnsResolver, source: Source, served: bytes, seconds: int
) -> None:
    """A minute where it does not say."""
    source.records[NAME] = served
    assert await resolver.record(NAME) == KeptRecord(
        served, timedelta(seconds=seconds), timedelta(0)
    )


async def test_it_outlives_the_process(source: Source, clock: Clock) -> None:
    """With its age."""
    memory = Memory()
    kept = source.records[NAME] = record()
    await resolver_of(source, clock=clock, memory=memory, policy=POLICY).record(NAME)
    await let_tasks_run()
    clock.pass_(30)
    resolver = resolver_of(source, clock=clock, memory=memory, policy=POLICY)
    expected = KeptRecord(kept, FIVE_MINUTES, timedelta(seconds=30))
    assert await resolver.record(NAME) == expected
    assert await resolver.record(NAME, ask=False) == expected
    assert len(source.asked) == 1


async def test_one_that_has_expired_is_waited_for_again(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """However long ago the first request for the name was."""
    source.records[NAME] = record(valid=600)
    await resolver.record(NAME)
    await let_tasks_run()
    clock.pass_(10 * 3600)
    source.records[NAME] = new = record(2)
    source.hold()
    asked = asyncio.create_task(resolver.record(NAME))
    await let_tasks_run()
    assert not asked.done()
    source.release()
    assert await asked == KeptRecord(new, FIVE_MINUTES, timedelta(0))


async def test_absence_is_told_from_outages(source: Source, clock: Clock) -> None:
    """None only where every source says so; a source that is slow, fails, or has something that is
    not valid, is an outage, and so is a look-up that could not begin."""
    policy = IpnsPolicy(first_wait=0.05, kept_record=4096, max_in_flight=1, max_waiting=0)
    other = Source()
    resolver = resolver_of(source, other, clock=clock, policy=policy)
    assert await resolver.record(NAME) is None
    assert await resolver.record(NAME) is None  # as it was told a moment ago
    assert len(source.asked) == 1
    await later(clock, 60)
    other.down = True
    with pytest.raises(UpstreamUnavailable, match="down"):
        await resolver.record(NAME)
    await later(clock, 60)
    other.down, source.records[NAME] = False, Signer(2).record(data())
    with pytest.raises(UpstreamUnavailable, match="not valid"):
        await resolver.record(NAME)
    await later(clock, 60)
    source.hold()
    with pytest.raises(UpstreamTimeout):
        await resolver.record(NAME)
    with pytest.raises(Overloaded):
        await resolver.record(Signer(3).name)
    source.release()
    await resolver.close()


async def test_nobody_is_asked_without_being_told_to(
    resolver: IpnsResolver, source: Source
) -> None:
    """And what is in memory is known to be fresh, or not."""
    source.records[NAME] = record()
    assert not resolver.is_fresh(NAME)
    assert await resolver.record(NAME, ask=False) is None
    assert source.asked == []
    await resolver.record(NAME)
    assert resolver.is_fresh(NAME)


async def test_where_it_leads_is_not_looked_up(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """Whoever publishes a long chain has no more look-ups made than with one name."""
    other = Signer(2)
    source.records[NAME] = SIGNER.record(data(Value=f"/ipns/{other.name}".encode()))
    source.records[other.name] = other.record(data())
    for _ in range(3):
        assert await resolver.record(NAME) is not None
        await let_tasks_run()
        clock.pass_(10)
    assert source.asked == [NAME]


async def test_large_ones_are_not_kept(source: Source, clock: Clock) -> None:
    """Memory is bounded: such a name is resolved as any, and its record is not handed on."""
    policy = IpnsPolicy(first_wait=60, kept_record=len(record()) - 1)
    resolver = resolver_of(source, clock=clock, policy=policy)
    source.records[NAME] = record()
    assert await resolver.record(NAME) is None
    assert await resolver.latest(NAME) is not None
