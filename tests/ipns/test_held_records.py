"""Records that are handed on: how old they are, and that strangers fill no memory."""

from datetime import timedelta

import pytest

from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.resolver import HeldRecord
from tests.clock import NOW, Clock, let_tasks_run
from tests.ipns.signing import Signer, data, when
from tests.ipns.sources import Memory, Source, resolver_of

SIGNER = Signer()
NAME = SIGNER.name
FIVE_MINUTES = timedelta(minutes=5)


def record(sequence: int = 1, ttl: int | None = 300, valid: float = 48 * 3600) -> bytes:
    """A record of the name; *ttl* and *valid* in seconds from the tests' beginning."""
    until = when(NOW + timedelta(seconds=valid))
    nanoseconds = None if ttl is None else ttl * 10**9
    return SIGNER.record(data(Sequence=sequence, TTL=nanoseconds, Validity=until))


async def test_its_age_counts_from_its_last_look_up() -> None:
    """One that is stale is as old as its lifetime, and looked up again; a source that fails makes
    none younger."""
    source, clock = Source(), Clock()
    first = source.records[NAME] = record()
    resolver = resolver_of(source, clock=clock, policy=IpnsPolicy(first_wait=60))
    await resolver.latest(NAME)
    await let_tasks_run()
    clock.pass_(100)
    assert await resolver.record(NAME) == HeldRecord(first, FIVE_MINUTES, timedelta(seconds=100))
    source.down = True
    for _ in range(3):
        clock.pass_(300)
        assert await resolver.record(NAME) == HeldRecord(first, FIVE_MINUTES, FIVE_MINUTES)
        await let_tasks_run()
    source.down = False
    second = source.records[NAME] = record(2)
    clock.pass_(300)
    await resolver.record(NAME)
    await let_tasks_run()
    assert await resolver.record(NAME) == HeldRecord(second, FIVE_MINUTES, timedelta(0))
    assert len(source.asked) == 5
    await resolver.close()


@pytest.mark.parametrize(
    ("served", "seconds"),
    [(record(ttl=None), 60), (record(valid=200), 200), (record(ttl=10**6), 48 * 3600)],
    ids=["says nothing", "ends sooner", "lives longer"],
)
async def test_it_is_cached_no_longer_than_it_is_valid(served: bytes, seconds: int) -> None:
    """A minute where it does not say; here it is asked for again sooner than others may."""
    source = Source()
    source.records[NAME] = served
    resolver = resolver_of(source, clock=Clock(), policy=IpnsPolicy(first_wait=60))
    await resolver.latest(NAME)
    await let_tasks_run()
    held = await resolver.record(NAME)
    assert held is not None
    assert held.lifetime == timedelta(seconds=seconds)
    assert held.age == max(timedelta(0), held.lifetime - timedelta(hours=1))
    await resolver.close()


async def test_strangers_fill_no_memory() -> None:
    """What was never resolved evicts nothing and asks nobody; what expired is none."""
    source, clock, memory = Source(), Clock(), Memory()
    source.records[NAME] = record(valid=600)
    policy = IpnsPolicy(first_wait=60, max_names=1)
    resolver = resolver_of(source, clock=clock, memory=memory, policy=policy)
    await resolver.latest(NAME)
    await let_tasks_run()
    for seed in range(2, 10):
        source.records[Signer(seed).name] = Signer(seed).record(data())
        assert await resolver.record(Signer(seed).name) is None
    clock.pass_(200)
    assert await resolver.known(NAME) is not None
    assert source.asked == [NAME]
    clock.pass_(400)
    assert await resolver.record(NAME) is None
    await resolver.close()
