"""IPNS resolutions are fair by requestor: names whose sources hang keep nobody else waiting.

On a virtual clock: the seconds are those that a caller would have waited, on any machine."""

import asyncio
import math
from datetime import datetime, timedelta

import pytest

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import Overloaded
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.link_cache import LinkCache
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.model.ipns_name import IpnsName
from tests.clock import NOW
from tests.ipns.sources import Dns, Memory, Txt
from tests.virtual import run_virtually

PATH = "/ipfs/bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
USUAL = 0.1  # seconds of a look-up that goes well
FLOOD = 1_000


class SlowDns(Dns):
    """Answers after a while; the servers of domains that begin with "hang" never do."""

    async def lookup(self, domain: str) -> Txt | None:
        self.asked.append(domain)
        await asyncio.sleep(3_600 if domain.startswith("hang") else USUAL)
        return Txt(PATH)


class Street:
    """A resolver on the running loop's clock, and those who ask it."""

    def __init__(self, **policy: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self.dns = SlowDns()
        links = LinkCache(
            [],
            self.dns,
            Memory(),
            policy=IpnsPolicy(**policy),  # type: ignore[arg-type]
            clock=self._clock,
            today=self.today,
        )
        self.resolver = IpnsResolver(links, Denylist(None, None))

    def today(self) -> datetime:
        return NOW + timedelta(seconds=self._clock())

    async def flood(self, hog: str) -> list[str]:
        """Resolutions of names that hang, as many as are taken; the names."""
        names = [f"hang{number}.{hog}.org" for number in range(FLOOD)]
        for number, name in enumerate(names):
            try:
                await self.resolver.begin(IpnsName.parse(name), requestor=hog)
            except Overloaded:
                return names[:number]
        raise AssertionError("there is no bound")

    async def seconds(self, name: str, requestor: str) -> float:
        """How long it took until the name had a verified answer."""
        begun = self._clock()
        assert await self.resolver.latest(IpnsName.parse(name), requestor=requestor) is not None
        return self._clock() - begun


async def tail(hogs: int) -> float:
    """The 99th percentile of the seconds of another's resolutions beside the hogs'."""
    street = Street()
    for number in range(hogs):
        await street.flood(f"hog{number}")
    await asyncio.sleep(0)
    took = sorted([await street.seconds(f"n{number}.org", "quiet") for number in range(100)])
    await street.resolver.close()
    return took[math.ceil(0.99 * len(took)) - 1]


@pytest.mark.parametrize("hogs", [1, 3])
def test_hanging_names_of_one_keep_no_other_waiting(hogs: int) -> None:
    """All are answered in the first moments, and none later than alone."""
    assert run_virtually(tail(hogs)) <= 3 * run_virtually(tail(0))


def test_a_name_that_is_under_way_is_never_refused() -> None:
    """It is charged to whoever began it; one who has used up its share may join."""

    async def run() -> None:
        street = Street()
        taken = await street.flood("hog")
        await asyncio.sleep(0)
        for name in taken[0], taken[-1]:
            progress = await street.resolver.begin(IpnsName.parse(name), requestor="hog")
            assert progress.state == "pending"
        await street.resolver.close()

    run_virtually(run())


def test_who_joins_a_look_up_of_another_waits_in_its_own_turn() -> None:
    """A name that the hog has queued behind hundreds comes at once for somebody else."""

    async def run() -> float:
        street = Street()
        for number in range(400):
            await street.resolver.begin(IpnsName.parse(f"hang{number}.org"), requestor="hog")
        await street.resolver.begin(IpnsName.parse("popular.org"), requestor="hog")
        await asyncio.sleep(0)
        assert "popular.org" not in street.dns.asked
        took = await street.seconds("popular.org", "guest")
        await street.resolver.close()
        return took

    assert run_virtually(run()) <= 3 * USUAL


def test_who_has_waited_for_nothing_reads_that_it_is_us() -> None:
    """The task has failed for our own overload, and no source was asked."""

    async def run() -> None:
        street = Street(source_limit=3_600.0)  # whoever has a permit keeps it
        taken = await street.flood("hog")
        last = await street.resolver.begin(IpnsName.parse(taken[-1]), requestor="hog")
        await asyncio.sleep(10)
        progress = await street.resolver.progress(last.task.id, requestor="guest")
        assert progress.state == "failed"
        assert progress.failure == "Too many IPNS names are being looked up at once."
        assert taken[-1] not in street.dns.asked  # nor held back for the guest, who is asked now
        await asyncio.sleep(0)
        assert taken[-1] in street.dns.asked
        await street.resolver.close()

    run_virtually(run())
