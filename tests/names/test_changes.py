"""Names that were heard to have changed on a chain: looked up again at once, and not too often."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from content_gateway.errors import NameNotFound, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Records, Resolution, Resolved
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.changes import Changes, nodes_behind
from content_gateway.names.directory import Directory
from tests.clock import Clock, let_tasks_run
from tests.fakes.ethereum import namehash
from tests.fakes.gnosis import gno_node
from tests.names.services import ALICE, BOB, Memory, Service, directory_of
from tests.samples import BASE, SITE

NODE = namehash("site.eth")
BETWEEN = 5  # seconds between look-ups for changes of one name, in the long run
AT_ONCE = 8


class Chain:
    """Whether nodes may have been behind; a test says so."""

    is_behind = False

    def __call__(self, since: float) -> bool:
        return self.is_behind


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.fixture
def changes(chain: Chain, clock: Clock) -> Changes:
    return Changes(is_behind=chain, clock=clock)


@pytest.fixture
async def directory(
    service: Service, memory: Memory, changes: Changes, clock: Clock
) -> AsyncIterator[Directory]:
    """A directory that hears *changes*."""
    directory = directory_of(service, memory=memory, clock=clock, changes=changes)
    yield directory
    await directory.close()


async def records(directory: Directory, name: DomainName = SITE) -> Records:
    """What *name* points at."""
    return (await directory.resolve(name)).records


async def test_a_change_is_in_the_next_answer(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """Whoever asks first waits for the look-up, and its answer is fresh for five minutes again."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.names["site.eth"] = BOB
    clock.pass_(1)
    assert await records(directory) == ALICE
    changes.hear([NODE])
    clock.pass_(1)
    assert await directory.resolve(SITE) == Resolution(BOB)
    clock.pass_(299)
    assert await directory.resolve(SITE) == Resolution(BOB)
    assert len(service.asked) == 2


async def test_a_change_of_another_name_costs_nothing(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """Ten thousand names, and only the one is asked for again that has changed."""
    names = [DomainName(f"name{number}.eth") for number in range(10_000)]
    service.names |= {name.text: ALICE for name in names}
    for name in names:
        await directory.resolve(name)
    clock.pass_(1)
    changes.hear([namehash("name77.eth"), namehash("nobody.eth")])
    service.asked.clear()
    for name in names:
        await directory.resolve(name)
    assert service.asked == ["name77.eth"]


async def test_all_who_ask_share_the_look_up(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """However many there are, and for each coin one."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    await directory.resolve(SITE, BASE)
    clock.pass_(1)
    changes.hear([NODE])
    await asyncio.gather(*(directory.resolve(SITE) for _ in range(100)))
    await asyncio.gather(*(directory.resolve(SITE, BASE) for _ in range(100)))
    assert service.coins == [ETHEREUM, BASE, ETHEREUM, BASE]


async def test_absence_ends_with_the_change(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """A name that was registered is there at once, and one that was deleted is gone."""
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.names["site.eth"] = ALICE
    clock.pass_(1)
    changes.hear([NODE])
    assert await records(directory) == ALICE
    del service.names["site.eth"]
    clock.pass_(1)
    changes.hear([NODE])
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)


@pytest.mark.parametrize(
    ("changed", "is_asked"),
    [
        ("a.b.wild.eth", True),
        ("b.wild.eth", True),
        ("wild.eth", True),
        ("eth", False),
        ("c.a.b.wild.eth", False),
        ("other.eth", False),
    ],
)
async def test_names_below_a_name_change_with_it(  # noqa: PLR0917 - each is a fixture or a case
    directory: Directory,
    service: Service,
    changes: Changes,
    clock: Clock,
    changed: str,
    is_asked: bool,
) -> None:
    """A resolver may answer for all of them; what is set for an ending is left to the clock."""
    name = DomainName("a.b.wild.eth")
    service.names[name.text] = ALICE
    await directory.resolve(name)
    clock.pass_(1)
    changes.hear([namehash(changed)])
    await directory.resolve(name)
    assert len(service.asked) == (2 if is_asked else 1)


async def test_a_change_on_gnosis_is_in_the_next_answer(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """Where a name has a node of another rule."""
    name = DomainName("site.gno")
    service.names[name.text] = ALICE
    await directory.resolve(name)
    clock.pass_(1)
    changes.hear([gno_node("other.gno")])
    await directory.resolve(name)
    assert len(service.asked) == 1
    changes.hear([gno_node("site.gno")])
    await directory.resolve(name)
    assert len(service.asked) == 2


def test_the_nodes_of_a_name_are_few() -> None:
    """However many labels it has."""
    assert nodes_behind("site.eth") == (NODE,)
    deep = ".".join(["x"] * 126 + ["site", "eth"])
    assert set(nodes_behind(deep)) == {
        namehash(deep), NODE, namehash("x.site.eth"), namehash("x.x.site.eth")
    }  # fmt: skip


async def test_whoever_emits_events_buys_no_more_than_a_refresh(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """A change each second for ten minutes, and a look-up each five; between them the answer says
    that it is stale."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.asked.clear()
    stale = 0
    for _ in range(600):
        clock.pass_(1)
        changes.hear([NODE])
        stale += (await directory.resolve(SITE)).stale is not None
    assert len(service.asked) == 600 // BETWEEN + AT_ONCE - 1
    assert stale == 600 - len(service.asked)


async def test_what_was_put_off_is_looked_up_later(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """The last of many changes is never the one that is forgotten."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    for _ in range(AT_ONCE):
        clock.pass_(0.1)
        changes.hear([NODE])
        await directory.resolve(SITE)
    service.names["site.eth"] = BOB
    clock.pass_(0.1)
    changes.hear([NODE])
    put_off = await directory.resolve(SITE)
    assert put_off.records == ALICE
    assert put_off.stale is not None
    assert put_off.stale.overdue >= timedelta(0)
    clock.pass_(BETWEEN)
    assert await directory.resolve(SITE) == Resolution(BOB)


async def test_a_change_during_a_look_up_is_not_lost(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """Who waited for it gets what a second one says."""
    service.names["site.eth"] = ALICE
    service.hold()
    asking = asyncio.create_task(directory.resolve(SITE))
    await let_tasks_run()
    clock.pass_(1)
    changes.hear([NODE])
    clock.pass_(1)
    service.release()
    await asking
    assert len(service.asked) == 2
    await directory.resolve(SITE)
    assert len(service.asked) == 2


async def test_an_answer_from_before_the_change_is_not_kept(
    directory: Directory, service: Service, changes: Changes, chain: Chain, clock: Clock
) -> None:
    """A node that was behind is asked again a second later; its answer says that it is stale."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    clock.pass_(1)
    changes.hear([NODE])
    chain.is_behind = True
    clock.pass_(0.1)
    behind = await directory.resolve(SITE)
    assert behind.records == ALICE
    assert behind.stale is not None
    await directory.resolve(SITE)
    assert len(service.asked) == 2
    service.names["site.eth"] = BOB
    chain.is_behind = False
    clock.pass_(1)
    assert await directory.resolve(SITE) == Resolution(BOB)
    clock.pass_(200)
    await directory.resolve(SITE)
    assert len(service.asked) == 3


async def test_a_name_that_nobody_knew_is_no_fresher(
    directory: Directory, service: Service, changes: Changes, chain: Chain, clock: Clock
) -> None:
    """Its first look-up may be of a node that is behind as well as any other."""
    changes.hear([NODE])
    chain.is_behind = True
    clock.pass_(0.1)
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.names["site.eth"] = ALICE
    chain.is_behind = False
    clock.pass_(1)
    assert await directory.resolve(SITE) == Resolution(ALICE)


async def test_nodes_that_stay_behind_cost_a_look_up_each_five_seconds(
    directory: Directory, service: Service, changes: Changes, chain: Chain, clock: Clock
) -> None:
    """Such as those that are told of a block that nobody has: for a minute, not for ever."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    clock.pass_(1)
    changes.hear([NODE])
    chain.is_behind = True
    service.asked.clear()
    for _ in range(200):
        clock.pass_(1)
        await directory.resolve(SITE)
    assert len(service.asked) <= 60 // BETWEEN + AT_ONCE


async def test_an_outage_after_a_change_serves_what_was_known(
    directory: Directory, service: Service, changes: Changes, clock: Clock
) -> None:
    """As after ten minutes: the first waits in vain, others get the old answer, which says so, and
    look-ups in the background find the new one."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(1)
    changes.hear([NODE])
    clock.pass_(1)
    for _ in range(3):
        old = await directory.resolve(SITE)
        assert old.records == ALICE
        assert old.stale is not None
        assert old.stale.overdue == timedelta(seconds=1)
    assert len(service.asked) == 2
    service.down, service.names["site.eth"] = False, BOB
    clock.pass_(3)
    await directory.resolve(SITE)
    await let_tasks_run()
    assert await directory.resolve(SITE) == Resolution(BOB)
    clock.pass_(3600)
    service.down = True
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


async def test_what_outlived_a_restart_is_compared_too(
    directory: Directory, service: Service, memory: Memory, changes: Changes, clock: Clock
) -> None:
    """An answer from the database may be older than what was heard before it was loaded."""
    service.names["site.eth"] = BOB
    memory.kept["site.eth", ETHEREUM] = Resolved(ALICE, clock.today() - timedelta(seconds=100))
    changes.hear([NODE])
    assert await directory.resolve(SITE) == Resolution(BOB)


def test_what_is_remembered_has_a_bound(clock: Clock) -> None:
    """The newest changes stay."""
    changes = Changes(clock=clock, most=3)
    nodes = [bytes([number]) * 32 for number in range(5)]
    changes.hear(nodes)
    assert [changes.last([node]) is not None for node in nodes] == [False, False, True, True, True]
    clock.pass_(1)
    changes.hear([nodes[2]])
    assert changes.last(nodes) == clock()
    assert changes.count == 6
