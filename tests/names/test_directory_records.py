"""The directory for whoever has to say how long an answer lasts: DNS, by the TTL of records."""

from datetime import timedelta

import pytest

from content_gateway.errors import Blocked, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import FreshRecords, IpnsContent, Records
from content_gateway.names.directory import Directory
from tests.clock import Clock, let_tasks_run
from tests.names.services import ALICE, BOB, Blocks, Ipns, Service, Zone
from tests.samples import CID, KEY_TEXT, SITE

LISTED = DomainName.parse("listed.eth")


def seconds(found: FreshRecords) -> float | None:
    """How long it is fresh."""
    return None if found.fresh_for is None else found.fresh_for.total_seconds()


async def test_an_answer_is_fresh_until_it_is_looked_up_again(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Five minutes at first, less as they pass, and nothing is promised of a stale one."""
    service.names["site.eth"] = ALICE
    assert await directory.records(SITE) == FreshRecords(ALICE, timedelta(seconds=300))
    clock.pass_(299)
    assert seconds(await directory.records(SITE)) == pytest.approx(1)
    service.hold()
    clock.pass_(1)
    assert await directory.records(SITE) == FreshRecords(ALICE, None)
    assert len(service.asked) == 1
    service.names["site.eth"] = BOB
    service.release()
    await let_tasks_run()
    assert await directory.records(SITE) == FreshRecords(BOB, timedelta(seconds=300))


async def test_absence_is_a_value_and_lasts_half_a_minute(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """And an outage is never that: it is raised, and what was known serves meanwhile."""
    assert await directory.records(SITE) == FreshRecords(None, timedelta(seconds=30))
    clock.pass_(10)
    assert seconds(await directory.records(SITE)) == pytest.approx(20)
    clock.pass_(20)
    service.down = True
    with pytest.raises(UpstreamUnavailable):
        await directory.records(SITE)


async def test_a_zone_promises_no_time(directory: Directory, zone: Zone) -> None:
    """Its file may be edited any moment, absence in it too."""
    zone.names["listed.eth"] = ALICE
    assert await directory.records(LISTED) == FreshRecords(ALICE, None)
    assert await directory.records(DomainName.parse("gone.local")) == FreshRecords(None, None)


async def test_a_zone_lists_what_it_has_the_last_word_on(directory: Directory, zone: Zone) -> None:
    """Its names, and whatever lies below its endings."""
    zone.names["listed.eth"] = ALICE
    assert directory.lists(LISTED)
    assert directory.lists(DomainName.parse("gone.local"))
    assert not directory.lists(SITE)


async def test_ipns_content_is_not_followed(
    directory: Directory, service: Service, ipns: Ipns
) -> None:
    """Whoever asked can do that, with proof; but what is blocked is not told on."""
    service.names["site.eth"] = records = Records(None, IpnsContent(IpnsName.parse(KEY_TEXT)))
    assert (await directory.records(SITE)).records == records
    assert ipns.asked == []
    ipns.blocked = True
    with pytest.raises(Blocked):
        await directory.records(SITE)


async def test_what_is_blocked_is_not_told(
    directory: Directory, service: Service, zone: Zone, blocks: Blocks
) -> None:
    """Neither a name nor content, be it the zone's."""
    service.names["site.eth"] = zone.names["listed.eth"] = BOB
    blocks.names.add("listed.eth")
    with pytest.raises(Blocked):
        await directory.records(LISTED)
    blocks.names.clear()
    blocks.cids.add(CID)
    for name in (SITE, LISTED):
        with pytest.raises(Blocked):
            await directory.records(name)
