"""The directory and answers of which a record failed: told, soon asked for again, never kept for
longer than they deserve."""

from datetime import timedelta

import pytest

from content_gateway.errors import (
    AnswerTooLarge,
    InvalidUpstreamResponse,
    ResolverFailed,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.records import (
    Failed,
    Records,
    Resolution,
    Resolved,
    Staleness,
)
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.directory import Directory
from tests.clock import Clock
from tests.names.services import Memory, Service, directory_of
from tests.samples import CONTENT, SITE

WALLET = "0x" + "aa" * 20
WHOLE = Records(WALLET, CONTENT)
REFUSED = Records(WALLET, Failed(ResolverFailed, "The name's resolver reverted."))
OUT = Records(WALLET, Failed(UpstreamUnavailable, "The name's off-chain gateway failed."))


@pytest.mark.parametrize("partial", [REFUSED, OUT])
async def test_a_partial_answer_is_told_and_soon_asked_for_again(
    directory: Directory, service: Service, clock: Clock, partial: Records
) -> None:
    """It is fresh for thirty seconds, as absence is; then the caller waits for the rest."""
    service.names["site.eth"] = partial
    for _ in range(10):
        assert await directory.resolve(SITE) == Resolution(partial)
    assert len(service.asked) == 1
    clock.pass_(30)
    service.names["site.eth"] = WHOLE
    assert await directory.resolve(SITE) == Resolution(WHOLE)
    assert len(service.asked) == 2
    clock.pass_(299)
    assert await directory.resolve(SITE) == Resolution(WHOLE)
    assert len(service.asked) == 2


@pytest.mark.parametrize("kind", [UpstreamUnavailable, UpstreamTimeout, InvalidUpstreamResponse])
async def test_in_an_outage_the_whole_answer_of_before_is_told(
    directory: Directory,
    service: Service,
    clock: Clock,
    memory: Memory,
    kind: type[UpstreamUnavailable],
) -> None:
    """As in any outage: stale, for an hour, and looked after every three seconds; then half an
    answer is better than none."""
    service.names["site.eth"] = WHOLE
    await directory.resolve(SITE)
    partial = Records(WALLET, Failed(kind, "No."))
    service.names["site.eth"] = partial
    clock.pass_(700)
    stale = Staleness(timedelta(seconds=700), timedelta(seconds=400))
    for _ in range(5):
        assert await directory.resolve(SITE) == Resolution(WHOLE, stale=stale)
    assert len(service.asked) == 2
    assert memory.kept["site.eth", ETHEREUM].records == WHOLE
    clock.pass_(2900)
    assert await directory.resolve(SITE) == Resolution(partial)


@pytest.mark.parametrize("kind", [ResolverFailed, AnswerTooLarge])
async def test_what_the_names_owner_did_is_told_at_once(
    directory: Directory, service: Service, clock: Clock, kind: type[ResolverFailed]
) -> None:
    """A resolver that refuses is no outage: its earlier answer is replaced."""
    service.names["site.eth"] = WHOLE
    await directory.resolve(SITE)
    partial = Records(WALLET, Failed(kind, "No."))
    service.names["site.eth"] = partial
    clock.pass_(700)
    assert await directory.resolve(SITE) == Resolution(partial)


async def test_a_partial_answer_is_not_written_down(
    directory: Directory, service: Service, memory: Memory, clock: Clock
) -> None:
    """A whole one of before stays in the database, and is what is last known; a restart knows
    nothing of the partial one."""
    service.names["site.eth"] = REFUSED
    await directory.resolve(SITE)
    assert not memory.kept
    assert (await directory.known(SITE))[0].records == REFUSED
    clock.pass_(60)
    service.names["site.eth"] = WHOLE
    await directory.resolve(SITE)
    kept = Resolved(WHOLE, clock.today())
    clock.pass_(400)
    service.names["site.eth"] = REFUSED
    await directory.resolve(SITE, force_refresh=True)
    assert memory.kept == {("site.eth", ETHEREUM): kept}
    assert (await directory.known(SITE))[0] == kept
    restarted = directory_of(service, memory=memory, clock=clock)
    assert (await restarted.known(SITE))[0] == kept
    await restarted.close()


async def test_a_partial_answer_serves_in_an_outage_when_there_is_no_better(
    directory: Directory, service: Service, clock: Clock
) -> None:
    """It is served stale, with its age, and after the first failure without a wait."""
    service.names["site.eth"] = REFUSED
    await directory.resolve(SITE)
    service.down = True
    clock.pass_(40)
    stale = Staleness(timedelta(seconds=40), timedelta(seconds=10))
    for _ in range(10):
        assert await directory.resolve(SITE) == Resolution(REFUSED, stale=stale)
    assert len(service.asked) == 2
    clock.pass_(3600)
    with pytest.raises(UpstreamUnavailable):
        await directory.resolve(SITE)
