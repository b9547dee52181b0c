"""In-flight look-ups: all who wait for a name share one, and nobody can spoil it for others."""

import asyncio

import pytest

from content_gateway.errors import NameNotFound, Overloaded, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Resolution
from content_gateway.names.cached_services import LookupPolicy
from content_gateway.names.directory import Directory
from tests.clock import Clock, let_tasks_run
from tests.names.services import ALICE, Ipns, Service, directory_of

SITE = DomainName.parse("site.eth")
OTHER = DomainName.parse("other.eth")
THIRD = DomainName.parse("third.eth")
# Two under way for one requestor, and nobody waits.
NARROW = LookupPolicy(max_in_flight=3, max_waiting=0)


async def test_a_thousand_callers_share_one_look_up(directory: Directory, service: Service) -> None:
    """However many ask at once for a cold name, the service is asked once."""
    service.names["site.eth"] = ALICE
    service.hold()
    callers = [asyncio.create_task(directory.resolve(SITE)) for _ in range(1_000)]
    await let_tasks_run()
    service.release()
    assert await asyncio.gather(*callers) == [Resolution(ALICE)] * 1_000
    assert service.asked == ["site.eth"]


@pytest.mark.parametrize("down", [False, True])
async def test_callers_share_the_bad_news_too(
    directory: Directory, service: Service, down: bool
) -> None:
    """Absence and outage are learnt once for all who wait."""
    service.down = down
    service.hold()
    callers = [asyncio.create_task(directory.resolve(SITE)) for _ in range(50)]
    await let_tasks_run()
    service.release()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {
        UpstreamUnavailable if down else NameNotFound
    }
    assert service.asked == ["site.eth"]


async def test_an_outage_serves_all_who_wait_the_last_known_answer(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """All who waited for the refresh that failed get the old answer, not only the first."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    clock.pass_(300)
    service.down = True
    service.hold()
    callers = [asyncio.create_task(directory.resolve(SITE)) for _ in range(50)]
    await let_tasks_run()
    service.release()
    assert all(resolution.stale for resolution in await asyncio.gather(*callers))
    assert len(service.asked) == 2


async def test_names_do_not_wait_for_each_other(directory: Directory, service: Service) -> None:
    """Two names are two in-flight requests, under way at the same time."""
    service.names |= {"site.eth": ALICE, "other.eth": ALICE}
    service.hold()
    callers = [asyncio.create_task(directory.resolve(name)) for name in (SITE, OTHER, SITE)]
    await let_tasks_run()
    assert service.asked == ["site.eth", "other.eth"]
    service.release()
    await asyncio.gather(*callers)


async def test_a_caller_who_gives_up_does_not_cancel_the_others(
    directory: Directory, service: Service
) -> None:
    """Even the one whose request started the in-flight request may leave."""
    service.names["site.eth"] = ALICE
    service.hold()
    first, second = (asyncio.create_task(directory.resolve(SITE)) for _ in range(2))
    await let_tasks_run()
    first.cancel()
    await let_tasks_run()
    assert first.cancelled()
    service.release()
    assert await second == Resolution(ALICE)
    assert len(service.asked) == 1


async def test_an_in_flight_request_without_callers_is_stored(
    directory: Directory, service: Service
) -> None:
    """The answer is stored although its caller was cancelled."""
    service.names["site.eth"] = ALICE
    service.hold()
    caller = asyncio.create_task(directory.resolve(SITE))
    await let_tasks_run()
    caller.cancel()
    service.release()
    await let_tasks_run()
    assert await directory.resolve(SITE) == Resolution(ALICE)
    assert len(service.asked) == 1


async def test_a_failure_nobody_waits_for_makes_no_noise(
    directory: Directory, service: Service
) -> None:
    """An abandoned in-flight request that fails is not reported as an exception nobody looked
    at."""
    service.down = True
    service.hold()
    caller = asyncio.create_task(directory.resolve(SITE))
    await let_tasks_run()
    caller.cancel()
    service.release()
    await let_tasks_run()
    assert service.ended == ["site.eth"]


async def test_in_flight_requests_are_bounded(service: Service, ipns: Ipns, clock: Clock) -> None:
    """Look-ups beyond the bound are refused, whatever names are asked for."""
    directory = directory_of(service, ipns=ipns, clock=clock, policy=NARROW)
    service.names["site.eth"] = ALICE
    service.hold()
    waiting = [asyncio.create_task(directory.resolve(name)) for name in (SITE, OTHER)]
    await let_tasks_run()
    with pytest.raises(Overloaded):  # our own doing, and no upstream's
        await directory.resolve(THIRD)
    joining = asyncio.create_task(directory.resolve(SITE))
    await let_tasks_run()
    service.release()
    assert await joining == Resolution(ALICE)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert service.asked == ["site.eth", "other.eth"]


async def test_a_known_name_is_served_while_no_more_may_be_in_flight(
    service: Service, ipns: Ipns, clock: Clock
) -> None:
    """When no more look-ups may start we could not find out: the last known answer serves."""
    directory = directory_of(service, ipns=ipns, clock=clock, policy=NARROW)
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    clock.pass_(300)
    service.hold()
    busy = [asyncio.create_task(directory.resolve(name)) for name in (OTHER, THIRD)]
    await let_tasks_run()
    for seconds in (0, 600):  # while revalidating, and beyond
        clock.pass_(seconds)
        resolution = await directory.resolve(SITE)
        assert resolution.records == ALICE
        assert resolution.stale is not None
    await directory.close()
    await asyncio.gather(*busy, return_exceptions=True)


async def test_closing_ends_every_in_flight_request(directory: Directory, service: Service) -> None:
    """After close nothing is under way any more, and the service was told so."""
    service.hold()
    callers = [asyncio.create_task(directory.resolve(name)) for name in (SITE, OTHER)]
    await let_tasks_run()
    await directory.close()
    assert sorted(service.ended) == ["other.eth", "site.eth"]
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(outcome, BaseException) for outcome in outcomes)
