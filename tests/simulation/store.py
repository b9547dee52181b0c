"""A store in miniature that fetches before it answers, as the embedded store and Kubo do.

What it says is done is durable, and shown at once; what was half fetched is not shown, and stays
until it is unpinned."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence

from content_gateway.errors import PinDeferred, PinFailed, UpstreamTimeout, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    LastRequest,
    Listed,
    TrackerStatus,
)
from content_gateway.model.multiaddr import Multiaddr
from tests.simulation.backend import (
    ABSENT,
    GIVE_UP,
    Mood,
    SimulatedBackend,
    Watcher,
)


class SimulatedStore(SimulatedBackend):
    """A store that fetches before it answers; what was half fetched stays until it is unpinned."""

    batch_age = 0.0

    def __init__(self, chance: random.Random, watcher: Watcher, *, stalest: bool) -> None:
        super().__init__(chance, watcher, stalest=stalest)
        self.fetch_seconds = self._chance.choice(((0.2, 20.0), (10.0, 55.0)))
        self._held: set[Cid] = set()
        self._partial: set[Cid] = set()

    # The port PinBackend.

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        call = self._watcher.request_begins(LastRequest.PIN, cid)
        try:
            await self._refuse_or_not()
            if cid not in self._held:
                await self._fetch(cid, progress)
            self._watcher.moment("the store holds it")
            await self._reply()
        finally:
            self._watcher.request_ends(call)
        return BackendStatus(TrackerStatus.PINNED, 1)

    async def unpin(self, cid: Cid) -> None:
        call = self._watcher.request_begins(LastRequest.UNPIN, cid)
        try:
            await self._refuse_or_not()
            self.lose(cid)
            self._watcher.moment("the store dropped it")
            await self._reply()
        finally:
            self._watcher.request_ends(call)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        await self._answer_or_not()
        for cid in sorted(self._held, key=str):
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            if self.mood is Mood.AWAY:
                raise UpstreamUnavailable("The store cannot be reached.")
            yield Listed(cid)

    # What happens to it.

    def restart(self) -> None:
        """It starts again: what is under way breaks off."""
        self.began += 1

    def lose(self, cid: Cid) -> None:
        """It is gone, as far as it was there."""
        self._held.discard(cid)
        self._partial.discard(cid)
        self._show(cid, ABSENT)

    def lose_blocks(self, cid: Cid) -> None:
        """As `lose`, as it knows no pin without its blocks."""
        self.lose(cid)

    def put(self, cid: Cid) -> None:
        """Somebody else pins *cid*."""
        self._held.add(cid)
        self._show(cid, BackendStatus(TrackerStatus.PINNED, 1))

    # What is true of it, for whoever checks.

    def keeps(self, cid: Cid) -> bool:
        """Whether *cid* is held."""
        return cid in self._held

    def is_leaving(self, cid: Cid) -> bool:
        """Never: a request that is accepted is done."""
        return False

    def may_keep(self) -> set[Cid]:
        """What is held, wholly or in part."""
        return self._held | self._partial

    @property
    def is_quiet(self) -> bool:
        """Always: nothing is accepted that is not done."""
        return True

    async def _fetch(self, cid: Cid, progress: Callable[[int, int], None]) -> None:
        self._partial.add(cid)
        epoch = self.began
        is_there = cid in self._available
        seconds = self._chance.uniform(*(self.fetch_seconds if is_there else GIVE_UP))
        for part in range(1, 4):
            await asyncio.sleep(seconds / 3)
            progress(part, part * 1000)
        if epoch != self.began or self.mood is Mood.AWAY:
            raise UpstreamUnavailable("The store broke off.")
        if cid not in self._available:
            raise PinFailed("Nobody has it.")
        self._partial.discard(cid)
        self.put(cid)

    async def _refuse_or_not(self) -> None:
        await self._answer_or_not()
        if self.mood is Mood.DEAF:
            raise UpstreamUnavailable("The store cannot be reached.")
        if self.mood is Mood.BUSY:
            raise PinDeferred("The store is full.")

    async def _reply(self) -> None:
        await self._late(self.now)
        if self.mood is Mood.MUTE:
            raise UpstreamTimeout("The store did not answer in time.")
