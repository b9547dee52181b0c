"""A cluster in miniature that batches, is late and lies.

A change that it accepted is durable with its batch, which a restart loses; a DELETE of what is only
in the batch finds nothing, and the pin commits afterwards; a call may take effect long after its
caller gave up. It pins a few contents at a time, first in, first out."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from content_gateway.errors import PinDeferred, UpstreamTimeout, UpstreamUnavailable
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
    CALL_SECONDS,
    GIVE_UP,
    Mood,
    SimulatedBackend,
    Watcher,
)


class SimulatedCluster(SimulatedBackend):
    """A cluster whose batches commit after *window* seconds; *workers* contents at a time.

    *shows_batch*: statuses show a change before it is durable."""

    def __init__(
        self,
        chance: random.Random,
        watcher: Watcher,
        *,
        window: float,
        workers: int,
        stalest: bool,
        shows_batch: bool,
    ) -> None:
        super().__init__(chance, watcher, stalest=stalest)
        self.batch_age = window + CALL_SECONDS
        self.workers = workers
        self._window = window
        self._shows_batch = shows_batch
        self._durable: set[Cid] = set()
        self._pinset: set[Cid] = set()  # as it is seen, with or without the open batch
        self._fetched: set[Cid] = set()
        self._waiting: deque[Cid] = deque()
        self._fetching: dict[Cid, int] = {}
        self._batch: list[tuple[LastRequest, Cid]] = []
        self._batch_number = 0
        self._last_sent: dict[Cid, LastRequest] = {}
        self._coming: list[tuple[LastRequest, Cid]] = []  # accepted from callers, not taken in yet

    # The ports PinBackend and BackendQueue.

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        is_recover = seen.status in (
            TrackerStatus.FAILED,
            TrackerStatus.LOST,
            TrackerStatus.UNTRACKED,
        )
        await self._change(LastRequest.PIN, cid, is_recover=is_recover)
        return BackendStatus(TrackerStatus.QUEUED)

    async def unpin(self, cid: Cid) -> None:
        await self._change(LastRequest.UNPIN, cid, is_recover=False)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        await self._answer_or_not()
        for cid in sorted(self._pinset, key=str):
            await asyncio.sleep(self._chance.uniform(0, 0.3))
            if self.mood is Mood.AWAY:
                raise UpstreamUnavailable("The cluster cannot be reached.")
            if cid in self._pinset:
                yield Listed(cid, int(cid in self._fetched))

    async def in_progress(self) -> Mapping[str, bool]:
        await self._answer_or_not()
        return {str(cid): True for cid in (*self._waiting, *self._fetching)}

    # What happens to it.

    def restart(self) -> None:
        """It is killed and starts again: the open batch is lost, and every call under way."""
        self.began += 1
        touched = {cid for _, cid in self._batch}
        self._batch, self._coming = [], []
        self._batch_number += 1
        for cid in sorted(touched, key=str):
            if cid in self._durable:
                self._enter(cid)
            else:
                self._leave(cid)

    def lose(self, cid: Cid) -> None:
        """A pin is gone without anybody's request, and what the open batch has of it."""
        self._batch = [(request, each) for request, each in self._batch if each != cid]
        self._durable.discard(cid)
        self._leave(cid)

    def lose_blocks(self, cid: Cid) -> None:
        """What was fetched is gone, and the pin is not: fetched again when it is asked for."""
        if cid in self._fetched:
            self._fetched.discard(cid)
            self._show(cid, BackendStatus(TrackerStatus.LOST, 0, 1, reason="Its blocks are gone."))

    def put(self, cid: Cid) -> None:
        """Somebody else pins *cid*."""
        self._durable.add(cid)
        self._enter(cid)

    # What is true of it, for whoever checks.

    def keeps(self, cid: Cid) -> bool:
        """Whether *cid* is held, and stays whatever becomes of what is accepted and not durable."""
        coming = [request for request, each in (*self._batch, *self._coming) if each == cid]
        return cid in self._durable and cid in self._fetched and LastRequest.UNPIN not in coming

    def is_leaving(self, cid: Cid) -> bool:
        """Whether the last request for *cid* was to unpin it, and is on its way yet."""
        is_last = self._last_sent.get(cid) is LastRequest.UNPIN
        return is_last and (LastRequest.UNPIN, cid) in (*self._batch, *self._coming)

    def may_keep(self) -> set[Cid]:
        """What is held, or may be with what is accepted and not durable."""
        coming = {cid for what, cid in (*self._batch, *self._coming) if what is LastRequest.PIN}
        return self._durable | self._pinset | coming

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is accepted that is not durable yet."""
        return not (self._batch or self._coming or self._fetching or self._waiting)

    async def _change(self, request: LastRequest, cid: Cid, *, is_recover: bool) -> None:
        call = self._watcher.request_begins(request, cid)
        began_at, epoch = self.now, self.began
        change = (request, cid)
        self._last_sent[cid] = request
        self._coming.append(change)
        # Without the caller's waiting: what is on its way arrives even if the caller is gone.
        seconds = self._chance.uniform(0, 0.2)
        is_late = request is LastRequest.UNPIN and self._chance.random() < 0.5
        if self.mood is Mood.SLOW or is_late:
            seconds = self._chance.choice((self._chance.uniform(0, 1), CALL_SECONDS - 0.01))
        taken = asyncio.get_running_loop().create_future()
        try:
            if self.mood is Mood.AWAY:
                self._coming.remove(change)
                await self._late(began_at)
                raise UpstreamUnavailable("The cluster cannot be reached.")
            self._later(seconds, self._take, change, is_recover, epoch, self.mood, taken)
            refusal = await taken
            self._watcher.moment(f"the backend took {request}")
            if refusal is not None:
                raise refusal
            await self._late(began_at)
            if self.mood in (Mood.MUTE, Mood.AWAY):
                raise UpstreamTimeout("The cluster did not answer in time.")
        finally:
            self._watcher.request_ends(call)

    def _take(
        self,
        change: tuple[LastRequest, Cid],
        is_recover: bool,
        epoch: int,
        mood: Mood,
        taken: asyncio.Future[Exception | None],
    ) -> None:
        """The change arrives, unless the cluster was started again meanwhile."""
        refusal: Exception | None = None
        if epoch != self.began:
            refusal = UpstreamUnavailable("The cluster cannot be reached.")
        else:
            self._coming.remove(change)
            request, cid = change
            if mood is Mood.DEAF:
                refusal = UpstreamUnavailable("The cluster cannot be reached.")
            elif mood is Mood.BUSY:
                refusal = PinDeferred("The queue is full.")
            elif is_recover and cid in self._pinset:
                self._fetch_again(cid)
            elif request is LastRequest.PIN or cid in self._pinset:  # else 404, whatever comes
                self._batch_up(request, cid)
        if not taken.done():
            taken.set_result(refusal)

    def _batch_up(self, request: LastRequest, cid: Cid) -> None:
        if not self._batch:
            self._later(self._window, self._commit, self._batch_number)
        self._batch.append((request, cid))
        if self._shows_batch:
            self._apply(request, cid)

    def _commit(self, number: int) -> None:
        if number != self._batch_number:
            return
        batch, self._batch = self._batch, []
        self._batch_number += 1
        for request, cid in batch:
            if request is LastRequest.PIN:
                self._durable.add(cid)
            else:
                self._durable.discard(cid)
            if not self._shows_batch:
                self._apply(request, cid)

    def _apply(self, request: LastRequest, cid: Cid) -> None:
        if request is LastRequest.PIN:
            self._enter(cid)
        else:
            self._leave(cid)

    def _enter(self, cid: Cid) -> None:
        if cid not in self._pinset:
            self._pinset.add(cid)
            self._fetch_again(cid)

    def _fetch_again(self, cid: Cid) -> None:
        if cid in self._fetched or cid in self._fetching or cid in self._waiting:
            return
        self._waiting.append(cid)
        self._show(cid, BackendStatus(TrackerStatus.QUEUED))
        self._fetch_next()

    def _leave(self, cid: Cid) -> None:
        self._pinset.discard(cid)
        self._fetched.discard(cid)
        self._fetching.pop(cid, None)
        if cid in self._waiting:
            self._waiting.remove(cid)
        self._show(cid, ABSENT)
        self._fetch_next()

    def _fetch_next(self) -> None:
        while self._waiting and len(self._fetching) < self.workers:
            cid = self._waiting.popleft()
            number = self._fetching[cid] = self._chance.getrandbits(60)
            self._show(cid, BackendStatus(TrackerStatus.PINNING))
            is_there = cid in self._available
            seconds = self._chance.uniform(*(self.fetch_seconds if is_there else GIVE_UP))
            self._later(seconds, self._fetch_ends, cid, number)

    def _fetch_ends(self, cid: Cid, number: int) -> None:
        if self._fetching.get(cid) != number:
            return
        del self._fetching[cid]
        if cid in self._available:
            self._fetched.add(cid)
            self._show(cid, BackendStatus(TrackerStatus.PINNED, 1))
        else:
            self._show(cid, BackendStatus(TrackerStatus.FAILED, reason="Nobody has it."))
        self._fetch_next()
