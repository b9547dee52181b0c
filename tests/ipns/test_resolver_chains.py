"""Chains: names that point at names, in the ledger of keys and in DNS, and what outlives us."""

from datetime import timedelta

import pytest

from content_gateway.errors import Blocked, TaskNotFound
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.resolver import MAX_DEPTH
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import MAX_PATH, IpfsPath
from content_gateway.model.ipns_name import IpnsName
from tests.clock import NOW, Clock, let_tasks_run
from tests.ipns.signing import Signer, data, when
from tests.ipns.sources import Dns, Memory, Source, Txt, resolver_of
from tests.names.services import Blocks

FIRST = IpfsPath(Cid.parse("bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"))
SECOND = IpfsPath(Cid.parse("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"))
DOMAIN = IpnsName.parse("docs.example.org")
SIGNERS = [Signer(seed) for seed in range(1, MAX_DEPTH + 2)]


def points_at(target: object, **changes: object) -> dict[str, object]:
    """What a publisher signs who points at the path or name *target*."""
    path = f"/ipns/{target}" if isinstance(target, IpnsName) else str(target)
    return data(Value=path.encode(), **changes)


def chain(source: Source, length: int, end: IpfsPath = FIRST) -> IpnsName:
    """*length* names, each pointing at the next and the last at *end*; the first of them."""
    signers = SIGNERS[:length]
    for signer, following in zip(signers, [*signers[1:], None], strict=True):
        target = end if following is None else following.name
        source.records[signer.name] = signer.record(points_at(target))
    return signers[0].name


@pytest.mark.parametrize("length", [2, 3, MAX_DEPTH])
async def test_a_chain_of_keys_is_followed_at_the_first_request(length: int) -> None:
    """The first caller waits for every link of it."""
    source = Source()
    name = chain(source, length)
    resolver = resolver_of(source)
    assert await resolver.latest(name) == FIRST
    assert len(source.asked) == length
    await resolver.close()


async def test_each_name_on_the_way_puts_its_path_before() -> None:
    """`/ipns/A` to `/ipns/B/b`, B to `/ipfs/CID/c`: what is meant is `/ipfs/CID/c/b`."""
    source = Source()
    first, second = SIGNERS[:2]
    source.records[first.name] = first.record(data(Value=f"/ipns/{second.name}/b/".encode()))
    source.records[second.name] = second.record(data(Value=f"{FIRST}/c/".encode()))
    resolver = resolver_of(source)
    assert await resolver.latest(first.name) == IpfsPath(FIRST.cid, "/c/b/")
    assert await resolver.latest(second.name) == IpfsPath(FIRST.cid, "/c/")
    assert await resolver.latest(first.name) is await resolver.latest(first.name)
    await resolver.close()


async def test_paths_do_not_grow_without_end() -> None:
    """Thirty-two names with ten thousand bytes each would be a third of a megabyte."""
    source = Source()
    first, second = SIGNERS[:2]
    long = "a" * (MAX_PATH - 100)
    source.records[first.name] = first.record(data(Value=f"/ipns/{second.name}/{long}".encode()))
    source.records[second.name] = second.record(data(Value=f"{FIRST}/{long}".encode()))
    resolver = resolver_of(source)
    assert await resolver.latest(first.name) is None
    assert await resolver.latest(second.name) is not None
    progress = await resolver.progress((await resolver.begin(first.name)).task.id)
    await let_tasks_run()
    progress = await resolver.progress(progress.task.id)
    assert progress.failure == "The path that it points at is too long."
    await resolver.close()


async def test_a_chain_that_is_too_long_leads_nowhere() -> None:
    """Somebody else's chain costs us 32 look-ups and no more."""
    source = Source()
    name = chain(source, MAX_DEPTH + 1)
    resolver = resolver_of(source)
    assert await resolver.latest(name) is None
    assert len(source.asked) == MAX_DEPTH
    await resolver.close()


async def test_a_circle_ends() -> None:
    """Two names that point at each other are each asked for once."""
    source = Source()
    one, other = SIGNERS[:2]
    source.records[one.name] = one.record(points_at(other.name))
    source.records[other.name] = other.record(points_at(one.name))
    resolver = resolver_of(source)
    assert await resolver.latest(one.name) is None
    await let_tasks_run()
    assert len(source.asked) == 2
    await resolver.close()


async def test_a_domain_leads_to_a_cid_and_to_a_key() -> None:
    """DNSLink to IPFS, and DNSLink to IPNS to IPFS."""
    source, dns = Source(), Dns()
    dns.links["docs.example.org"] = Txt(f"{FIRST}")
    dns.links["www.example.org"] = Txt(f"/ipns/{chain(source, 1, SECOND)}")
    resolver = resolver_of(source, dns=dns)
    assert await resolver.latest(DOMAIN) == FIRST
    assert await resolver.latest(IpnsName.parse("WWW.example.org")) == SECOND
    assert len(source.asked) == 1
    await resolver.close()


async def test_every_link_keeps_its_own_time() -> None:
    """A chain is as fresh as its least fresh link: the domain is asked again, the key is not."""
    source, dns, clock = Source(), Dns(), Clock()
    dns.links["docs.example.org"] = Txt(f"/ipns/{chain(source, 1)}", timedelta(seconds=60))
    resolver = resolver_of(source, dns=dns, clock=clock)
    await resolver.latest(DOMAIN)
    await let_tasks_run()
    clock.pass_(61)
    assert await resolver.latest(DOMAIN) == FIRST
    await let_tasks_run()
    assert (len(dns.asked), len(source.asked)) == (2, 1)
    await resolver.close()


async def test_a_domains_link_serves_an_hour_beyond_its_ttl_while_dns_fails() -> None:
    """While DNS fails the link serves for another hour; an answer without a link removes it."""
    dns, clock = Dns(), Clock()
    dns.links["docs.example.org"] = Txt(f"{FIRST}")
    resolver = resolver_of(dns=dns, clock=clock)
    await resolver.latest(DOMAIN)
    dns.down = True
    clock.pass_(3800)
    assert await resolver.latest(DOMAIN) == FIRST
    await let_tasks_run()
    clock.pass_(101)
    assert await resolver.latest(DOMAIN) is None
    dns.down = False
    await let_tasks_run()
    clock.pass_(11)
    await resolver.latest(DOMAIN)
    await let_tasks_run()
    assert await resolver.latest(DOMAIN) == FIRST
    dns.links.clear()
    clock.pass_(301)
    await resolver.latest(DOMAIN)
    await let_tasks_run()
    assert await resolver.latest(DOMAIN) is None
    await resolver.close()


async def test_what_was_verified_outlives_the_process() -> None:
    """A restart while every source is down still answers, and knows the sequence it has seen."""
    source, memory, clock = Source(), Memory(), Clock()
    signer = SIGNERS[0]
    source.records[signer.name] = signer.record(points_at(FIRST, Sequence=7))
    first = resolver_of(source, memory=memory, clock=clock)
    await first.latest(signer.name)
    await first.close()

    source.down = True
    clock.pass_(3600)
    second = resolver_of(source, memory=memory, clock=clock)
    assert await second.latest(signer.name) == FIRST
    await let_tasks_run()
    source.down = False
    source.records[signer.name] = signer.record(points_at(SECOND, Sequence=6))
    clock.pass_(11)
    await second.latest(signer.name)
    await let_tasks_run()
    assert await second.latest(signer.name) == FIRST
    await second.close()


async def test_an_expired_record_still_counts_against_older_ones() -> None:
    """The sequence of an expired record still rules out records with a lower one."""
    source, memory, clock = Source(), Memory(), Clock()
    signer = SIGNERS[0]
    soon = when(NOW + timedelta(seconds=60))
    source.records[signer.name] = signer.record(points_at(FIRST, Sequence=7, Validity=soon))
    first = resolver_of(source, memory=memory, clock=clock)
    assert await first.latest(signer.name) == FIRST
    await first.close()
    clock.pass_(61)
    source.records[signer.name] = signer.record(points_at(SECOND, Sequence=6))
    second = resolver_of(source, memory=memory, clock=clock)
    assert await second.latest(signer.name) is None
    await second.close()


async def test_a_kept_record_is_verified_again() -> None:
    """A stored record is verified as one of a source is."""
    source, memory = Source(), Memory()
    name = chain(source, 1)
    first = resolver_of(source, memory=memory)
    await first.latest(name)
    await first.close()
    kept = memory.kept[name]
    assert kept.record is not None
    spoilt = kept.record[:-1] + bytes([kept.record[-1] ^ 1])
    memory.kept[name] = type(kept)(kept.path, kept.at, spoilt)
    source.down = True
    second = resolver_of(source, memory=memory)
    assert await second.latest(name) is None
    await second.close()


async def test_force_refresh_waits_for_the_new_record() -> None:
    """A forced refresh gets the newest record, at most once in five seconds."""
    source, clock = Source(), Clock()
    signer = SIGNERS[0]
    source.records[signer.name] = signer.record(points_at(FIRST, Sequence=1))
    resolver = resolver_of(source, clock=clock)
    await resolver.latest(signer.name)
    await let_tasks_run()
    source.records[signer.name] = signer.record(points_at(SECOND, Sequence=2))
    assert await resolver.latest(signer.name, force_refresh=True) == FIRST
    clock.pass_(5)
    assert await resolver.latest(signer.name, force_refresh=True) == SECOND
    assert len(source.asked) == 2
    await resolver.close()


async def test_a_task_tells_how_it_went() -> None:
    """Pending until a source answers, then resolved; the cached CID is told throughout."""
    source, clock = Source(), Clock()
    name = chain(source, 2)
    source.hold()
    resolver = resolver_of(source, clock=clock)
    started = await resolver.begin(name)
    assert (started.state, started.found) == ("pending", None)
    clock.pass_(1)
    await let_tasks_run()
    assert (await resolver.progress(started.task.id)).state == "pending"
    source.release()
    await let_tasks_run()
    assert (
        await resolver.progress(started.task.id)
    ).state == "pending"  # the next link of the chain
    await let_tasks_run()
    progress = await resolver.progress(started.task.id)
    assert (progress.state, progress.found, progress.failure) == ("resolved", FIRST, None)

    clock.pass_(10)
    source.hold()
    again = await resolver.begin(name)
    assert (again.state, again.found) == ("pending", FIRST)
    clock.pass_(1)
    assert (await resolver.progress(again.task.id)).found == FIRST
    assert (await resolver.progress(again.task.id)).state == "pending"
    await resolver.close()


@pytest.mark.parametrize("mishap", ["down", "none", "spoilt", "nowhere"])
async def test_a_task_that_failed_says_why(mishap: str) -> None:
    """The failure is a sentence for the caller."""
    source = Source()
    signer = SIGNERS[0]
    good = signer.record(points_at(FIRST))
    if mishap == "spoilt":
        source.records[signer.name] = good[:-1] + bytes([good[-1] ^ 1])
    if mishap == "nowhere":
        source.records[signer.name] = signer.record(data(Value=b"/swarm/abc"))
    source.down = mishap == "down"
    resolver = resolver_of(source)
    started = await resolver.begin(signer.name)
    await let_tasks_run()
    progress = await resolver.progress(started.task.id)
    assert (progress.state, progress.found) == ("failed", None)
    assert progress.failure is not None
    expected = {"down": "down", "none": "no", "spoilt": "not valid", "nowhere": "no CID"}
    assert expected[mishap] in progress.failure.lower().replace("cid", "CID")
    await resolver.close()


async def test_a_task_is_known_to_another_process() -> None:
    """The id holds the name and the time, so any process can resolve it."""
    source, clock = Source(), Clock()
    name = chain(source, 1)
    one, other = resolver_of(source, clock=clock), resolver_of(source, clock=clock)
    started = await one.begin(name)
    await let_tasks_run()
    clock.pass_(1)
    assert (await other.progress(started.task.id)).state == "pending"
    await let_tasks_run()
    assert (await other.progress(started.task.id)).found == FIRST
    await one.close()
    await other.close()


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "zz-docs.example.org", "1-not a name", "ffffffffffff-a.b"]
)
async def test_what_is_no_task_is_not_found(text: str) -> None:
    """An id that is malformed, or whose time is out of range."""
    resolver = resolver_of()
    with pytest.raises(TaskNotFound):
        await resolver.progress(text)


async def test_a_task_ends_after_an_hour() -> None:
    """An id with the name in another spelling is unknown."""
    clock = Clock()
    resolver = resolver_of(clock=clock)
    task = (await resolver.begin(DOMAIN)).task
    with pytest.raises(TaskNotFound):
        await resolver.progress(task.id.upper())
    clock.pass_(3599)
    await resolver.progress(task.id)
    clock.pass_(2)
    with pytest.raises(TaskNotFound):
        await resolver.progress(task.id)
    await resolver.close()


async def test_a_chain_does_not_outlast_the_first_wait() -> None:
    """A second link that hangs leaves the first caller without an answer, in time."""
    source = Source()
    name = chain(source, 2)
    silent = SIGNERS[1].name
    del source.records[silent]
    resolver = resolver_of(source, policy=IpnsPolicy(first_wait=0.05))
    assert await resolver.latest(name) is None
    await resolver.close()


@pytest.mark.parametrize("blocked", ["first", "second", "content"])
async def test_a_chain_through_anything_blocked_is_blocked(blocked: str) -> None:
    """By a name of the chain or by its content, in each of the four calls."""
    source, blocks = Source(), Blocks()
    name = chain(source, 2)
    resolver = resolver_of(source, denylist=blocks)
    assert await resolver.latest(name) == FIRST
    task = (await resolver.begin(name)).task
    if blocked == "content":
        blocks.cids.add(FIRST.cid)
    else:
        blocks.ipns.add(SIGNERS[blocked == "second"].name)
    with pytest.raises(Blocked):
        await resolver.latest(name)
    with pytest.raises(Blocked):
        await resolver.known(name)
    with pytest.raises(Blocked):
        await resolver.begin(name)
    with pytest.raises(Blocked):
        await resolver.progress(task.id)
    await resolver.close()


async def test_a_blocked_name_is_not_even_looked_up() -> None:
    """No source is asked."""
    source, blocks = Source(), Blocks()
    blocks.ipns.add(chain(source, 1))
    resolver = resolver_of(source, denylist=blocks)
    with pytest.raises(Blocked):
        await resolver.latest(SIGNERS[0].name)
    await let_tasks_run()
    assert source.asked == []
    await resolver.close()
