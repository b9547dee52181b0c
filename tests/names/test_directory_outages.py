"""The directory when a service is down: the last known answer, for an hour, and never a guess."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from content_gateway.errors import (
    NameNotFound,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Records, Resolution, Staleness
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cached_services import LookupPolicy
from content_gateway.names.directory import Directory
from tests.clock import Clock, let_tasks_run
from tests.names.services import ALICE, Ipns, Memory, Service, directory_of

SITE = DomainName.parse("site.eth")


async def test_an_unknown_name_during_an_outage_is_an_outage(
    directory: Directory, service: Service
) -> None:
    """A service that cannot be asked is UpstreamUnavailable, never NameNotFound."""
    service.down = True
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


@pytest.mark.parametrize(("age", "overdue"), [(299, None), (400, 100), (700, 400), (3599, 3299)])
async def test_the_last_known_answer_serves_for_an_hour_and_says_how_old_it_is(
    directory: Directory, service: Service, clock: Clock, age: int, overdue: int | None
) -> None:
    """Unmarked while it is fresh, then with its age and by how much it is overdue. stale-if-error
    has a limit: a wallet that is older would be worse than none."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(age)
    stale = None
    if overdue is not None:
        stale = Staleness(timedelta(seconds=age), timedelta(seconds=overdue))
    assert await directory.resolve(SITE) == Resolution(ALICE, stale=stale)
    await let_tasks_run()
    assert len(service.asked) == (1 if overdue is None else 2)
    clock.pass_(3605 - age)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


async def test_an_outage_costs_one_caller_a_wait(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """After a failed refresh the service is not asked for three seconds."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(300)
    for _ in range(100):
        assert (await directory.resolve(SITE)).stale is not None
        await let_tasks_run()
    assert len(service.asked) == 2
    clock.pass_(3)
    await directory.resolve(SITE)
    await let_tasks_run()
    assert len(service.asked) == 3


async def test_when_the_service_is_back_the_answer_is_fresh(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Three seconds after the outage the new answer is there, unmarked."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(600)
    await directory.resolve(SITE)
    service.down = False
    service.names["site.eth"] = Records("0x" + "cc" * 20)
    clock.pass_(3)
    await directory.resolve(SITE)  # nobody waits to see whether it is over
    await let_tasks_run()
    assert await directory.resolve(SITE) == Resolution(Records("0x" + "cc" * 20))


async def test_a_long_outage_makes_nobody_wait(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Once a refresh has failed, the old answer serves while the next one is still under way."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(1800)
    await directory.resolve(SITE)
    service.hold()
    clock.pass_(3)
    for _ in range(10):
        assert (await directory.resolve(SITE)).stale is not None
    assert len(service.asked) - len(service.ended) <= 1


async def test_a_known_absence_is_not_stretched(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """After thirty seconds 'there is nothing' would be a guess: the outage is told instead."""
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.down = True
    clock.pass_(29)
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    clock.pass_(1)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


async def test_records_that_are_gone_do_not_come_back(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """Absence replaces what was known: a later outage does not bring a deleted name back."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    del service.names["site.eth"]
    clock.pass_(600)
    with pytest.raises(NameNotFound):
        await directory.resolve(SITE)
    service.down = True
    clock.pass_(30)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)


async def test_a_service_that_hangs_is_a_timeout(
    service: Service, ipns: Ipns, clock: Clock
) -> None:
    """The whole search has one limit; after it a known name is served from memory."""
    directory = directory_of(service, ipns=ipns, clock=clock, policy=LookupPolicy(lookup=0.05))
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.hold()
    clock.pass_(300)
    assert (await directory.resolve(SITE)).stale is not None
    with pytest.raises(UpstreamTimeout):
        await directory.resolve(DomainName.parse("other.eth"))
    assert service.ended == service.asked


async def test_a_mishap_is_not_remembered(ipns: Ipns, clock: Clock) -> None:
    """An unexpected error reaches its caller, and nothing is stored."""

    class Careless(Service):
        async def resolve(
            self,
            name: DomainName,
            coin: CoinType = ETHEREUM,
            *,
            more: Sequence[RecordKey] = (),
            requestor: str = "",
        ) -> Records:
            if not self.asked:
                self.asked.append(name.text)
                raise ZeroDivisionError
            return await super().resolve(name, coin, more=more, requestor=requestor)

    service = Careless(site=ALICE)
    directory = directory_of(service, ipns=ipns, clock=clock)
    with pytest.raises(ZeroDivisionError):
        await directory.resolve(SITE)
    assert await directory.resolve(SITE) == Resolution(ALICE)


async def test_a_restart_during_an_outage_still_answers(
    directory: Directory, service: Service, memory: Memory, clock: Clock
) -> None:
    """What an earlier process has stored serves, with its true age, until it is too old."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(3000)
    restarted = directory_of(service, memory=memory, clock=clock)
    stale = Staleness(age=timedelta(seconds=3000), overdue=timedelta(seconds=2700))
    assert await restarted.resolve(SITE) == Resolution(ALICE, stale=stale)
    clock.pass_(600)
    with pytest.raises(UpstreamUnavailable):
        await directory_of(service, memory=memory, clock=clock).resolve(SITE)


async def test_a_restart_forgets_nothing_that_is_fresh(
    directory: Directory, service: Service, memory: Memory, clock: Clock
) -> None:
    """Within the freshness a new process asks nobody either."""
    service.names["site.eth"] = ALICE
    await directory.resolve(SITE)
    clock.pass_(200)
    assert await directory_of(service, memory=memory, clock=clock).resolve(SITE) == Resolution(
        ALICE
    )
    assert len(service.asked) == 1
