"""Small working parts for tests of the resolver: a source of records, and a clock for it."""

import asyncio
from datetime import datetime, timedelta

from content_gateway.content.ipns_name import IpnsName
from content_gateway.errors import UpstreamUnavailable
from tests.ipns.signing import NOW


class Clock:
    """Both clocks of the resolver, which only move when told to."""

    def __init__(self) -> None:
        self._passed = timedelta()

    def __call__(self) -> float:
        return 1_000.0 + self._passed.total_seconds()

    def today(self) -> datetime:
        """The time of day."""
        return NOW + self._passed

    def pass_(self, seconds: float) -> None:
        """Let *seconds* go by."""
        self._passed += timedelta(seconds=seconds)


class Source:
    """Holds records by name. While `down` it fails; between `hold` and `let_go` it says nothing."""

    def __init__(self) -> None:
        self.records: dict[IpnsName, bytes] = {}
        self.asked: list[IpnsName] = []
        self.waiting = 0
        self.down = False
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nobody until `let_go`."""
        self._open.clear()

    def let_go(self) -> None:
        """Answer whoever waits."""
        self._open.set()

    async def record(self, name: IpnsName) -> bytes | None:
        """The record, None if there is none; raises UpstreamUnavailable."""
        self.asked.append(name)
        self.waiting += 1
        try:
            await self._open.wait()
            await asyncio.sleep(0)
        finally:
            self.waiting -= 1
        if self.down:
            raise UpstreamUnavailable("The source is down.")
        return self.records.get(name)


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)
