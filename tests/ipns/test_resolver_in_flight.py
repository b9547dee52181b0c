"""Resolutions under way: shared by all who ask, from all sources at once, bounded, and ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from tests.clock import at_once, let_tasks_run
from tests.ipns.signing import Signer, data
from tests.ipns.sources import Memory, Source, resolver_of

SIGNER = Signer()
NAME = SIGNER.name
OLD = IpfsPath(Cid.parse("bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"))
NEW = IpfsPath(Cid.parse("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"))


def record(path: IpfsPath, sequence: int = 1, signer: Signer = SIGNER) -> bytes:
    return signer.record(data(Value=str(path).encode(), Sequence=sequence))


@asynccontextmanager
async def resolving(
    *sources: Source, policy: IpnsPolicy | None = None
) -> AsyncIterator[IpnsResolver]:
    """A resolver over *sources*, on a clock that stands still."""
    resolver = resolver_of(*sources, policy=policy or IpnsPolicy(first_wait=60))
    yield resolver
    await resolver.close()


async def test_many_callers_share_one_resolution() -> None:
    """However many ask at once for a name, each source is asked once; all of them get it."""
    source = Source()
    source.records[NAME] = record(OLD)
    source.hold()
    async with resolving(source, policy=IpnsPolicy(first_wait=10)) as resolver:
        callers = [asyncio.create_task(resolver.latest(NAME)) for _ in range(500)]
        await let_tasks_run()
        source.release()
        assert await asyncio.gather(*callers) == [OLD] * 500
    assert source.asked == [NAME]


async def test_a_caller_who_gives_up_spoils_nothing() -> None:
    """The resolution goes on without whoever started it."""
    source = Source()
    source.records[NAME] = record(OLD)
    source.hold()
    async with resolving(source) as resolver:
        first, second = (asyncio.create_task(resolver.latest(NAME)) for _ in range(2))
        await let_tasks_run()
        first.cancel()
        await let_tasks_run()
        source.release()
        assert await second == OLD
    assert source.asked == [NAME]


@pytest.mark.parametrize("newer", [0, 1])
async def test_the_newest_record_of_all_sources_wins(newer: int) -> None:
    """Whichever source answers first, the higher sequence is what remains."""
    sources = [Source(), Source()]
    sources[newer].records[NAME] = record(NEW, 2)
    sources[1 - newer].records[NAME] = record(OLD, 1)
    for late in sources:
        late.hold()
        async with resolving(*sources) as resolver:
            await resolver.latest(NAME)  # the source that is not held answers
            late.release()
            await let_tasks_run()
            assert await resolver.latest(NAME) == NEW


async def test_one_good_source_is_enough() -> None:
    """Sources that hang, fail, have nothing or lie do not keep the good one's answer away."""
    hanging, down, empty, lying, good = (Source() for _ in range(5))
    hanging.hold()
    down.down = True
    lying.records[NAME] = record(NEW, 9, signer=Signer(2))
    good.records[NAME] = record(OLD)
    async with resolving(hanging, down, empty, lying, good) as resolver:
        assert await at_once(resolver.latest(NAME)) == OLD
        assert len(hanging.asked) == len(down.asked) == len(empty.asked) == len(lying.asked) == 1


async def test_without_sources_nobody_waits() -> None:
    """No router is configured: there is no answer, at once."""
    async with resolving() as resolver:
        assert await at_once(resolver.latest(NAME)) is None


async def test_a_source_that_hangs_is_left_after_its_limit() -> None:
    """A source has so many seconds; afterwards nothing of the resolution is left."""
    source = Source()
    source.hold()
    async with resolving(source, policy=IpnsPolicy(first_wait=60, source_limit=0.05)) as resolver:
        assert await resolver.latest(NAME) is None
        assert source.waiting == 0


async def test_resolutions_are_bounded() -> None:
    """Beyond so many names at once a new name has no answer yet, and its caller does not wait."""
    source = Source()
    source.hold()
    signers = [Signer(seed) for seed in range(1, 4)]
    policy = IpnsPolicy(first_wait=0.01, max_in_flight=3, max_waiting=0)
    async with resolving(source, policy=policy) as resolver:
        for signer in signers:
            source.records[signer.name] = record(OLD, signer=signer)
            assert await resolver.latest(signer.name) is None
        assert source.asked == [signer.name for signer in signers[:2]]
        source.release()
        await let_tasks_run()
        await resolver.latest(signers[2].name)
        await let_tasks_run()
        assert await resolver.latest(signers[2].name) == OLD


async def test_remembered_names_are_bounded() -> None:
    """The name least recently asked for is forgotten, and asked for again."""
    source = Source()
    first, second, third = (Signer(seed) for seed in range(1, 4))
    for signer in (first, second, third):
        source.records[signer.name] = record(OLD, signer=signer)
    memory = Memory()
    resolver = resolver_of(source, memory=memory, policy=IpnsPolicy(max_names=2))
    for signer in (first, second, first, third, first):
        assert await resolver.latest(signer.name) == OLD
    assert source.asked == [first.name, second.name, third.name]
    memory.kept.clear()
    assert await resolver.latest(second.name) == OLD
    assert source.asked[-1] == second.name
    await resolver.close()


async def test_closing_ends_every_resolution_and_what_it_asked() -> None:
    """After close nobody is being asked any more: the HTTP client may be closed behind it."""
    source, other = Source(), Source()
    source.hold()
    other.hold()
    async with resolving(source, other, policy=IpnsPolicy(first_wait=0.01)) as resolver:
        await resolver.latest(NAME)
        assert source.waiting == other.waiting == 1
        await at_once(resolver.close())
        assert source.waiting == other.waiting == 0


async def test_the_first_valid_record_answers_and_the_best_remains() -> None:
    """Nobody waits for a newer record that may be on its way; the next caller gets it."""
    quick, slower = Source(), Source()
    quick.records[NAME] = record(OLD, 1)
    slower.records[NAME] = record(NEW, 2)
    slower.hold()
    async with resolving(quick, slower, policy=IpnsPolicy(first_wait=10)) as resolver:
        assert await resolver.latest(NAME) == OLD
        slower.release()
        await let_tasks_run()
        assert await resolver.latest(NAME) == NEW
