"""The directory: refreshes that a caller forces, what is known, and what is blocked."""

from datetime import timedelta

import pytest

from content_gateway.errors import Blocked, NameNotFound
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpnsContent, Records, Resolution, Resolved
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.directory import Directory
from tests.clock import Clock
from tests.names.services import ALICE, BOB, Blocks, Ipns, Memory, Service, Zone
from tests.samples import BASE, CID, SITE

NAME = IpnsName.parse("k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1")
BLOG = Records("0x" + "cc" * 20, IpnsContent(NAME))


async def test_force_refresh_shows_the_owners_update_at_once(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Whoever has just changed a record can skip the cache."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.names["site.eth"] = BOB
    clock.pass_(5)
    assert await directory.resolve(SITE, force_refresh=True) == Resolution(BOB)


async def test_forced_refreshes_are_rare(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Each name has one in five seconds, however many callers force it, in an outage too."""
    service.names["site.eth"] = ALICE
    for _ in range(20):
        await directory.resolve(SITE, force_refresh=True)
        clock.pass_(1)
    assert len(service.asked) == 4
    service.down = True
    for _ in range(20):
        assert (await directory.resolve(SITE, force_refresh=True)).records == ALICE
        clock.pass_(1)
    assert len(service.asked) == 8


async def test_force_refresh_finds_a_name_that_was_absent(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """A known absence is refreshed, too."""
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.names["site.eth"] = ALICE
    clock.pass_(5)
    assert await directory.resolve(SITE, force_refresh=True) == Resolution(ALICE)


async def test_force_refresh_reaches_ipns(
    directory: Directory, service: Service, ipns: Ipns
) -> None:
    """The resolution of the IPNS name that the domain points at is refreshed as well."""
    service.names["site.eth"] = BLOG
    await directory.resolve(SITE)
    await directory.resolve(SITE, force_refresh=True)
    assert ipns.refreshed == [NAME]


async def test_coins_are_questions_of_their_own(directory: Directory, service: Service) -> None:
    """The address for one chain is never the answer for another, cached or not."""
    service.names["site.eth"] = ALICE
    for coin in (ETHEREUM, BASE, ETHEREUM, BASE):
        await directory.resolve(SITE, coin)
    assert service.coins == [ETHEREUM, BASE]


async def test_what_is_known_is_told_without_asking(
    directory: Directory, service: Service, ipns: Ipns, clock: Clock
) -> None:
    """However old it is, with the moment at which it was stored."""
    with pytest.raises(NameNotFound):
        await directory.known(SITE)
    service.names["site.eth"] = BLOG
    await directory.resolve(SITE)
    resolved = Resolved(BLOG, clock.today())
    assert await directory.known(SITE) == (resolved, None)
    ipns.paths[NAME] = IpfsPath(CID)
    clock.pass_(100_000)
    assert await directory.known(SITE) == (resolved, IpfsPath(CID))
    assert (len(service.asked), len(ipns.asked)) == (1, 1)


async def test_known_absence_is_told_too(directory: Directory, service: Service) -> None:
    """A name that was looked for in vain is not known, nor is one that was deleted."""
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    with pytest.raises(NameNotFound):
        await directory.known(SITE)
    assert len(service.asked) == 1


async def test_what_a_former_process_knew_is_known(
    directory: Directory, memory: Memory, clock: Clock
) -> None:
    """Even when it is too old to be an answer to a resolve."""
    resolved = Resolved(ALICE, clock.today() - timedelta(days=300))
    memory.kept["site.eth", ETHEREUM] = resolved
    assert await directory.known(SITE) == (resolved, None)


async def test_a_blocked_domain_is_refused_before_anybody_is_asked(
    directory: Directory, service: Service, blocks: Blocks
) -> None:
    """Cached or not; and not even its old records are told."""
    service.names["site.eth"] = ALICE
    blocks.names.add("site.eth")
    with pytest.raises(Blocked):
        await directory.resolve(SITE)
    with pytest.raises(Blocked):
        await directory.known(SITE)
    assert service.asked == []
    blocks.names.clear()
    await directory.resolve(SITE)
    blocks.names.add("site.eth")
    with pytest.raises(Blocked):
        await directory.resolve(SITE)


@pytest.mark.parametrize("local", [False, True])
async def test_blocked_content_is_refused_wherever_the_name_is_known(
    directory: Directory, service: Service, zone: Zone, blocks: Blocks, local: bool
) -> None:
    """A block takes effect on answers that are in the cache."""
    (zone if local else service).names["site.eth"] = BOB
    assert await directory.resolve(SITE) == Resolution(BOB)
    blocks.cids.add(CID)
    with pytest.raises(Blocked):
        await directory.resolve(SITE)
    with pytest.raises(Blocked):
        await directory.known(SITE)


async def test_what_ipns_blocks_is_not_told(
    directory: Directory, service: Service, ipns: Ipns
) -> None:
    """A domain is blocked with the IPNS name or the content that it leads to."""
    service.names["site.eth"] = BLOG
    await directory.resolve(SITE)
    ipns.blocked = True
    with pytest.raises(Blocked):
        await directory.resolve(SITE)
    with pytest.raises(Blocked):
        await directory.known(SITE)
