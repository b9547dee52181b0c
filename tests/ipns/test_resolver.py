"""The IPNS resolver: the first caller waits a moment, nobody else, and time never runs back."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from tests.clock import NOW, Clock, at_once, let_tasks_run
from tests.ipns.signing import Signer, data, when
from tests.ipns.sources import Source, later, resolver_of

SIGNER = Signer()
NAME = SIGNER.name
FIRST = IpfsPath(Cid.parse("bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"))
SECOND = IpfsPath(Cid.parse("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"))


def record(
    path: IpfsPath, sequence: int = 1, *, ttl: float = 300, valid: float = 48 * 3600
) -> bytes:
    """A record of the name; *ttl* and *valid* in seconds from the tests' beginning."""
    return SIGNER.record(
        data(
            Value=str(path).encode(),
            Sequence=sequence,
            TTL=int(ttl * 1e9),
            Validity=when(NOW + timedelta(seconds=valid)),
        )
    )


@pytest.fixture
async def resolver(source: Source, clock: Clock) -> AsyncIterator[IpnsResolver]:
    policy = IpnsPolicy(first_wait=60, source_limit=60)
    resolver = resolver_of(source, clock=clock, policy=policy)
    yield resolver
    await resolver.close()


async def test_the_first_request_waits_and_gets_the_answer(
    resolver: IpnsResolver, source: Source
) -> None:
    """Nothing is known yet, so the first caller waits for the resolution it started."""
    source.records[NAME] = record(FIRST)
    assert await resolver.latest(NAME) == FIRST
    assert source.asked == [NAME]


async def test_a_slow_source_delays_the_first_request_only_so_long(
    source: Source, clock: Clock
) -> None:
    """After the first wait there is no answer yet; when it comes, the next caller has it."""
    source.records[NAME] = record(FIRST)
    source.hold()
    resolver = resolver_of(source, clock=clock, policy=IpnsPolicy(first_wait=0.1))
    assert await resolver.latest(NAME) is None
    await later(clock, 1)
    assert await at_once(resolver.latest(NAME)) is None  # still under way, and nobody waits
    source.release()
    await let_tasks_run()
    assert await resolver.latest(NAME) == FIRST
    assert source.asked == [NAME]
    await resolver.close()


async def test_later_requests_never_wait(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """The last verified answer is given at once while a refresh runs behind it."""
    source.records[NAME] = record(FIRST)
    await resolver.latest(NAME)
    await later(clock, 300)
    source.records[NAME] = record(SECOND, 2)
    source.hold()
    assert await at_once(resolver.latest(NAME)) == FIRST
    await let_tasks_run()
    assert len(source.asked) == 2
    source.release()
    await let_tasks_run()
    assert await resolver.latest(NAME) == SECOND


@pytest.mark.parametrize(
    ("served", "fresh"),
    [(record(FIRST), 300), (record(FIRST, ttl=0), 60), (record(FIRST, valid=120), 120)],
    ids=["as it says", "a minute if it does not say", "to its end at most"],
)
async def test_an_answer_is_fresh_for_its_ttl(
    resolver: IpnsResolver, source: Source, clock: Clock, served: bytes, fresh: int
) -> None:
    """The publisher says how long, else it is a minute; never beyond the record's validity."""
    source.records[NAME] = served
    await resolver.latest(NAME)
    await later(clock, fresh - 0.1)
    assert await resolver.latest(NAME) == FIRST
    await let_tasks_run()
    assert len(source.asked) == 1
    await later(clock, 0.1)
    await resolver.latest(NAME)
    await let_tasks_run()
    assert len(source.asked) == 2


async def test_an_expired_answer_is_none(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """After its end of life the last answer is not given any more, until a new one is there."""
    source.records[NAME] = record(FIRST, valid=100)
    await resolver.latest(NAME)
    source.down = True
    await later(clock, 99)
    assert await resolver.latest(NAME) == FIRST
    await later(clock, 1)
    assert await resolver.latest(NAME) is None
    source.down = False
    source.records[NAME] = record(SECOND, 2)
    await let_tasks_run()
    await later(clock, 10)
    await resolver.latest(NAME)
    await let_tasks_run()
    assert await resolver.latest(NAME) == SECOND


async def test_a_source_that_is_down_takes_nothing_away(
    resolver: IpnsResolver, source: Source, clock: Clock
) -> None:
    """The last verified answer serves to the end of its validity; the source is asked seldom."""
    source.records[NAME] = record(FIRST)
    await resolver.latest(NAME)
    source.down = True
    for seconds in (300, 3600, 24 * 3600):
        await later(clock, seconds)
        assert await resolver.latest(NAME) == FIRST
        await let_tasks_run()
    asked = len(source.asked)
    for _ in range(50):
        await resolver.latest(NAME)
        await let_tasks_run()
    assert len(source.asked) == asked


@pytest.mark.parametrize("answer", ["none", "down", "foreign", "spoilt", "expired"])
async def test_what_cannot_be_verified_is_no_answer(
    resolver: IpnsResolver, source: Source, clock: Clock, answer: str
) -> None:
    """No record, somebody else's, a spoilt or an expired one: there is nothing to tell, and the
    source is asked again after a while only."""
    good = record(FIRST)
    wrong = {
        "foreign": Signer(2).record(data()),
        "spoilt": good[:-1] + bytes([good[-1] ^ 1]),
        "expired": record(FIRST, valid=-1),
    }
    source.down = answer == "down"
    if answer in wrong:
        source.records[NAME] = wrong[answer]
    assert await at_once(resolver.latest(NAME)) is None
    assert await resolver.latest(NAME) is None
    assert len(source.asked) == 1

    source.down = False
    source.records[NAME] = good
    await later(clock, 10)
    await resolver.latest(NAME)
    await let_tasks_run()
    assert await resolver.latest(NAME) == FIRST


@pytest.mark.parametrize(
    ("served", "kept"),
    [
        (record(SECOND, 4), FIRST),
        (record(SECOND, 5, valid=24 * 3600), FIRST),
        (record(SECOND, 5, valid=72 * 3600), SECOND),
        (record(SECOND, 6, valid=24 * 3600), SECOND),
    ],
    ids=["lower", "same, shorter", "same, longer", "higher"],
)
async def test_the_sequence_never_goes_back(
    resolver: IpnsResolver, source: Source, clock: Clock, served: bytes, kept: IpfsPath
) -> None:
    """An older record that a source still serves does not replace a newer one."""
    source.records[NAME] = record(FIRST, 5)
    await resolver.latest(NAME)
    await let_tasks_run()
    source.records[NAME] = served
    await later(clock, 300)
    await resolver.latest(NAME)
    await let_tasks_run()
    assert await resolver.latest(NAME) == kept


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"/",
        b"/ipfs/",
        b"/ipfs/garbage",
        b"/ipfs/Qm\xc3\xa9",
        b"/ipfs/\xff",
        b"/swarm/" + str(FIRST.cid).encode(),
        f"{FIRST}/../../etc".encode(),
        b"\x01\x72\x00\x01a",
        f"{FIRST}/".encode() + 9_000 * b"a",
    ],
)
async def test_only_content_is_told(resolver: IpnsResolver, source: Source, value: bytes) -> None:
    """A record that is valid and points at nothing we could tell has nothing, and costs no wait."""
    source.records[NAME] = SIGNER.record(data(Value=value))
    assert await at_once(resolver.latest(NAME)) is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (f"{FIRST}/docs".encode(), "/docs"),
        (f"{FIRST}/docs/".encode(), "/docs/"),
        (f"{FIRST}//a/./b/../c d".encode(), "/a/c d"),
        (f"{FIRST}/gr\u00fcn".encode(), "/gr\u00fcn"),
        *((f"{FIRST}{end}".encode(), "") for end in ("", "/", "//")),
        (str(FIRST.cid).encode(), ""),
        (bytes(FIRST.cid), ""),
        (bytes(FIRST.cid)[2:], ""),  # version 0: the bare multihash
    ],
)
async def test_the_path_below_a_cid_is_told(
    resolver: IpnsResolver, source: Source, value: bytes, path: str
) -> None:
    """A value is a path, cleaned as boxo cleans it, or the CID alone, as text or as bytes. A slash
    behind the CID means nothing."""
    source.records[NAME] = SIGNER.record(data(Value=value))
    assert await resolver.latest(NAME) == IpfsPath(FIRST.cid, path)
