"""Look-ups are fair by requestor: 1,000 names that hang keep nobody else waiting.

On a virtual clock: the seconds are those that a caller would have waited, on any machine."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress

import pytest

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import GatewayError, NameNotFound, Overloaded, UpstreamTimeout
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import IpnsContent, Records, Resolution
from content_gateway.model.wallet import CoinType
from content_gateway.names.cache import Cache
from content_gateway.names.directory import Directory
from tests.names.services import ALICE, Ipns, Memory, directory_of
from tests.names.services import Service as KnownNames
from tests.virtual import run_virtually

NAME = IpnsName.parse("example.org")
USUAL = 0.1  # seconds of a look-up that goes well


class Service:
    """A name service that takes its time; names that begin with "hang" it never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    kind = "test"

    def covers(self, name: DomainName) -> bool:
        return True

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        self.asked.append(name.text)
        await asyncio.sleep(3_600 if name.text.startswith("hang") else USUAL)
        return ALICE


class Street:
    """A directory on the running loop's clock, and those who ask it."""

    def __init__(self) -> None:
        self.service = Service()
        clock = asyncio.get_running_loop().time
        self.directory = Directory(
            local=[],
            services=[self.service],
            ipns=Ipns(),
            denylist=Denylist(None, None),
            cache=Cache(Memory(), clock=clock),
            clock=clock,
        )
        self.tasks: list[asyncio.Task[Resolution]] = []

    def begin(self, name: str, requestor: str) -> asyncio.Task[Resolution]:
        ask = self.directory.resolve(DomainName.parse(name), requestor=requestor)
        self.tasks.append(task := asyncio.create_task(ask))
        return task

    async def seconds(self, name: str, requestor: str) -> float:
        """How long the answer took; raises what went wrong."""
        begun = asyncio.get_running_loop().time()
        assert await self.begin(name, requestor) == Resolution(ALICE)
        return asyncio.get_running_loop().time() - begun

    async def close(self) -> None:
        await self.directory.close()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def tail(hogs: int) -> float:
    """The 99th percentile of the seconds of another's look-ups beside 1,000 of each hog."""
    street = Street()
    for hog in range(hogs):
        for number in range(1_000):
            street.begin(f"hang{number}.of{hog}.eth", f"hog{hog}")
    await asyncio.sleep(0)
    took = sorted([await street.seconds(f"n{number}.eth", "quiet") for number in range(100)])
    await street.close()
    return took[math.ceil(0.99 * len(took)) - 1]


@pytest.mark.parametrize("hogs", [1, 4])
def test_hanging_names_of_one_keep_no_other_waiting(hogs: int) -> None:
    """All are answered, and none later than alone."""
    assert run_virtually(tail(hogs)) <= 3 * run_virtually(tail(0))


def test_who_asks_for_too_much_hears_that_it_is_us() -> None:
    """Look-ups that were begun time out upstream; those that were not are Overloaded."""

    async def outcomes() -> list[type[BaseException]]:
        street = Street()
        tasks = [street.begin(f"hang{number}.eth", "hog") for number in range(2_000)]
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, GatewayError) for error in errors)
        kinds = [type(error) for error in errors]
        assert kinds.count(UpstreamTimeout) == len(street.service.asked)
        await street.close()
        return kinds  # type: ignore[return-value]

    kinds = run_virtually(outcomes())
    assert set(kinds) == {UpstreamTimeout, Overloaded}


def test_who_joins_a_look_up_of_another_waits_in_its_own_turn() -> None:
    """A name that the hog has queued behind hundreds comes at once for somebody else."""

    async def seconds() -> float:
        street = Street()
        for number in range(1_000):
            street.begin(f"hang{number}.eth", "hog")
        street.begin("popular.eth", "hog")
        await asyncio.sleep(0)
        assert "popular.eth" not in street.service.asked
        took = await street.seconds("popular.eth", "guest")
        assert street.service.asked.count("popular.eth") == 1
        await street.close()
        return took

    assert run_virtually(seconds()) <= 3 * USUAL


async def test_ipns_is_charged_to_the_same_requestor(service: KnownNames, ipns: Ipns) -> None:
    """What a domain's IPNS record makes us look up is charged to who asked for the domain."""
    service.names["site.eth"] = Records(None, IpnsContent(NAME))
    directory = directory_of(service, ipns=ipns)
    await directory.resolve(DomainName.parse("site.eth"), requestor="guest")
    await directory.resolve(DomainName.parse("site.eth"))
    assert ipns.requestors == ["guest", ""]


async def test_a_service_hears_who_is_charged(service: KnownNames, ipns: Ipns) -> None:
    """What owners of names have us ask is charged to who asked for the name."""
    directory = directory_of(service, ipns=ipns)
    with suppress(NameNotFound):
        await directory.resolve(DomainName.parse("unknown.eth"), requestor="guest")
    assert service.charged == ["guest"]
