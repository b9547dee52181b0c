"""The directory: who is asked, in which order, and how long an answer serves."""

from datetime import timedelta

import pytest

from content_gateway.errors import NameNotFound, UpstreamUnavailable
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpnsContent, Records, Resolution, Staleness
from content_gateway.names.cache import CachePolicy
from content_gateway.names.directory import Directory
from tests.clock import Clock, let_tasks_run
from tests.names.services import ALICE, BOB, Ipns, Service, Zone, directory_of
from tests.samples import CID, SITE

NAME = IpnsName.parse("k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1")


async def test_an_answer_serves_for_five_minutes(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Within the freshness nobody is asked again; after it the service is."""
    service.names["site.eth"] = ALICE
    assert await directory.resolve(SITE) == Resolution(ALICE)
    service.names["site.eth"] = BOB
    clock.pass_(299.9)
    assert await directory.resolve(SITE) == Resolution(ALICE)
    assert len(service.asked) == 1
    clock.pass_(0.1)
    await directory.resolve(SITE)
    await let_tasks_run()
    assert await directory.resolve(SITE) == Resolution(BOB)
    assert len(service.asked) == 2


async def test_a_stale_answer_is_told_while_a_new_one_is_fetched(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Between five and ten minutes nobody waits: the old answer, marked, and then the new one."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.names["site.eth"] = BOB
    service.hold()
    clock.pass_(599)
    stale = Staleness(age=timedelta(seconds=599), overdue=timedelta(seconds=299))
    for _ in range(10):
        assert await directory.resolve(SITE) == Resolution(ALICE, stale=stale)
    await let_tasks_run()
    assert len(service.asked) == 2
    service.release()
    await let_tasks_run()
    assert await directory.resolve(SITE) == Resolution(BOB)


async def test_after_ten_minutes_the_caller_waits_for_the_new_answer(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """A name that nobody has asked for in a while is looked up before it is told."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.names["site.eth"] = BOB
    clock.pass_(600)
    assert await directory.resolve(SITE) == Resolution(BOB)


async def test_absence_serves_for_thirty_seconds(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """A name that was just registered is found half a minute after somebody looked in vain."""
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.names["site.eth"] = ALICE
    clock.pass_(29.9)
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    assert len(service.asked) == 1
    clock.pass_(0.1)
    assert await directory.resolve(SITE) == Resolution(ALICE)


async def test_freshness_counts_from_the_answer(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Reading an entry does not prolong its freshness."""
    service.names["site.eth"] = ALICE
    for _ in range(4):
        await directory.resolve(SITE)
        clock.pass_(100)
    await let_tasks_run()
    assert len(service.asked) == 2


async def test_zones_come_first_and_are_never_cached(
    directory: Directory, zone: Zone, service: Service
) -> None:
    """The operator's own answer wins, shows at once when edited, and asks nobody."""
    service.names["site.eth"] = ALICE
    zone.names["site.eth"] = BOB
    assert await directory.resolve(SITE) == Resolution(BOB)
    zone.names["site.eth"] = ALICE
    assert await directory.resolve(SITE) == Resolution(ALICE)
    assert service.asked == []
    del zone.names["site.eth"]
    service.names["site.eth"] = BOB
    assert await directory.resolve(SITE) == Resolution(BOB)
    assert service.asked == ["site.eth"]


async def test_a_zone_may_have_the_last_word(directory: Directory, service: Service) -> None:
    """Below a suffix that a zone holds, an unlisted name does not exist, and nobody is asked."""
    with pytest.raises(NameNotFound):
        await directory.resolve(DomainName.parse("site.local"))
    assert service.asked == []


async def test_the_first_zone_wins(service: Service, ipns: Ipns) -> None:
    """Zones are asked in the operator's order."""
    zones = [Zone(), Zone(site=ALICE), Zone(site=BOB)]
    directory = directory_of(service, local=zones, ipns=ipns)
    assert await directory.resolve(SITE) == Resolution(ALICE)


async def test_only_absence_lets_the_search_go_on(ipns: Ipns, clock: Clock) -> None:
    """A service that does not know hands over to the next; one that is down ends the search."""
    first, second = Service(), Service(site=BOB)
    directory = directory_of(first, second, ipns=ipns, clock=clock)
    assert await directory.resolve(SITE) == Resolution(BOB)
    assert (first.asked, second.asked) == (["site.eth"], ["site.eth"])

    first.down = True
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(DomainName.parse("other.eth"))
    assert len(second.asked) == 1

    first.down, second.down = False, True
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(DomainName.parse("third.eth"))

    second.down = False
    with pytest.raises(NameNotFound):
        await directory.resolve(DomainName.parse("fourth.eth"))


async def test_the_first_service_that_knows_ends_the_search(ipns: Ipns) -> None:
    """The second service is not even asked."""
    first, second = Service(site=ALICE), Service(site=BOB)
    directory = directory_of(first, second, ipns=ipns)
    assert await directory.resolve(SITE) == Resolution(ALICE)
    assert second.asked == []


async def test_without_services_nothing_can_be_known(zone: Zone, ipns: Ipns) -> None:
    """With no service configured it is UpstreamUnavailable: no service was asked."""
    directory = directory_of(local=[zone], ipns=ipns)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


@pytest.mark.parametrize("local", [False, True])
async def test_ipns_content_comes_with_what_is_known_of_it(
    directory: Directory, zone: Zone, service: Service, ipns: Ipns, local: bool
) -> None:
    """IPNS is asked at every request, whether the name is cached or not."""
    records = Records(ALICE.wallet, IpnsContent(NAME))
    (zone if local else service).names["site.eth"] = records
    assert await directory.resolve(SITE) == Resolution(records, None)
    ipns.paths[NAME] = IpfsPath(CID)
    assert await directory.resolve(SITE) == Resolution(records, IpfsPath(CID))
    assert ipns.asked == [NAME, NAME]


async def test_ipns_is_not_asked_for_other_content(
    directory: Directory, service: Service, ipns: Ipns
) -> None:
    """A wallet alias and fixed content start no IPNS resolution."""
    service.names |= {"site.eth": ALICE, "other.eth": BOB}
    await directory.resolve(SITE)
    await directory.resolve(DomainName.parse("other.eth"))
    assert ipns.asked == []


async def test_other_lives_can_be_chosen(service: Service, ipns: Ipns, clock: Clock) -> None:
    """Every limit of the policy can be set."""
    service.names["site.eth"] = ALICE
    directory = directory_of(
        service,
        ipns=ipns,
        clock=clock,
        ages=CachePolicy(fresh=10, while_revalidating=10, absent=1, if_error=20),
    )
    await directory.resolve(SITE)
    clock.pass_(10)
    service.down = True
    stale = (await directory.resolve(SITE)).stale
    assert stale is not None
    assert stale.age == timedelta(seconds=10)
    clock.pass_(10)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)
