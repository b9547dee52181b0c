"""Services in miniature, as on several machines: each counts, and shares what it counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.shared_counts import SharedCounts
from content_gateway.model.allowance import Allowance
from content_gateway.valkey.exchange import CountExchange, StoreOptions
from tests.waiting import until


class Machine:
    """A service on a machine whose clock is *ahead* by so many seconds."""

    def __init__(self, url: str, prefix: str = "test", ahead: float = 0.0) -> None:
        self._ahead = ahead
        self.limits = KeyLimits()
        self.exchange = CountExchange(StoreOptions(url, prefix), clock=self._clock)
        self.counts = SharedCounts(self.limits, self.exchange.tell, clock=self._clock)

    def _clock(self) -> float:
        return time.perf_counter() + self._ahead

    async def begin(self) -> None:
        """Begin to share; raises WrongSettings."""
        await self.exchange.open(self.counts.hear_late, self.counts.raise_to)

    async def end(self) -> None:
        """Tell what was not told, and end."""
        self.counts.tell()
        await self.exchange.close()

    def let_in(self, requestor: Requestor, times: int = 1) -> int:
        """How many of so many requests were let in."""
        return sum(self._lets_in(requestor) for _ in range(times))

    def used(self, requestor: Requestor) -> int:
        """How many count within the minute, or the day where it has no limit of a minute."""
        use = self.limits.use_of(requestor)
        window = use.minute or use.day
        assert window is not None
        return window.used_at(self._clock())

    async def told(self) -> None:
        """Return once all is told that it let in."""
        self.counts.tell()
        await until(lambda: self.exchange.is_up)
        await self.rounds(2)

    async def rounds(self, number: int) -> None:
        """Wait for so many more exchanges with the store."""
        enough = self.exchange.rounds["ok"] + number
        await until(lambda: self.exchange.rounds["ok"] >= enough)

    def _lets_in(self, requestor: Requestor) -> bool:
        try:
            self.limits.admit(requestor, "getKey", self._clock())
        except HttpRefusal:
            return False
        return True


def requestor(name: str = "team", per_minute: int = 0, per_day: int = 0) -> Requestor:
    """A requestor with those limits."""
    allowance = Allowance(requests_per_minute=per_minute, requests_per_day=per_day)
    return Requestor(f"key_{name}", frozenset(), name, allowance)


@asynccontextmanager
async def machines(
    number: int, url: str, prefix: str = "test", ahead: Sequence[float] = ()
) -> AsyncIterator[list[Machine]]:
    """So many that share their limits."""
    async with AsyncExitStack() as stack:
        made = [Machine(url, prefix, ahead[place] if ahead else 0.0) for place in range(number)]
        for one in made:
            stack.push_async_callback(one.end)
            await one.begin()
        yield made


async def all_told(made: Sequence[Machine]) -> None:
    """Return once each knows what all of them let in."""
    await asyncio.gather(*(one.told() for one in made))
    await asyncio.gather(*(one.rounds(2) for one in made))
