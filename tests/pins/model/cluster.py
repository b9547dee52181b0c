"""A batching cluster in memory, on a clock that a test moves, with the traps of a real one.

Knows docs/facts/pins.md, Traps: an accepted change is in an open batch, is not seen until that
commits and is lost if the cluster is killed before; a DELETE of what is only in the batch finds
nothing, and the pin commits afterwards. With a batch age of 0 it is a store that fetches before it
answers. The adapters of real backends are tested elsewhere; this one is quick."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from math import inf

from content_gateway.errors import (
    PinDeferred,
    PinFailed,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, LastRequest, Listed, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from tests.ledgers import Clock

FETCH_SECONDS = 2.0
GIVE_UP_SECONDS = 5.0
CALL_SECONDS = 10.0  # after which a caller gives up


class Mood(Enum):
    """What can be wrong with a cluster."""

    WELL = auto()
    AWAY = auto()  # nothing is answered
    DEAF = auto()  # looks are answered, changes are not taken
    BUSY = auto()  # changes are refused for now
    MUTE = auto()  # changes are taken in, and the answer is lost
    SLOW = auto()  # changes are taken in, and whoever waits gives up
    VAGUE = auto()  # looks show nothing


Meanwhile = Callable[[str, Cid], Awaitable[None]]


async def nothing(what: str, cid: Cid) -> None:
    """Nothing happens meanwhile."""


class SimulatedCluster:
    """A pin backend that forgets, delays and refuses; *meanwhile* is called before it takes in a
    change. A batch commits after *window* seconds, and a change is taken in within a call's."""

    def __init__(self, clock: Clock, window: float) -> None:
        self.batch_age = window + CALL_SECONDS if window else 0.0
        self.mood = Mood.WELL
        self.meanwhile: Meanwhile = nothing
        self._available: set[Cid] = set()
        self._clock = clock
        self._window = window
        self._pinset: dict[Cid, float] = {}  # and since when its peers fetch it
        self._fetched: set[Cid] = set()
        self._batch: list[tuple[LastRequest, Cid]] = []
        self.commits_at: float | None = None

    # What the reconciler and the resync ask for.

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        self._answer_or_not()
        return {cid: self._sighting(cid) for cid in cids}

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        await self._hear("pin", cid)
        if self.batch_age == 0 and cid not in self._available:
            raise PinFailed("Nobody has it.")
        if seen.status in (TrackerStatus.FAILED, TrackerStatus.LOST):
            self._pinset.update({cid: self._clock()} if cid in self._pinset else {})
        else:
            self._take(LastRequest.PIN, cid)
        self._reply()
        return self._sighting(cid) if self.batch_age == 0 else BackendStatus(TrackerStatus.QUEUED)

    async def unpin(self, cid: Cid) -> None:
        await self._hear("unpin", cid)
        if cid in self._pinset:  # else 404, whatever the open batch holds
            self._take(LastRequest.UNPIN, cid)
        self._reply()

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        self._answer_or_not()
        for cid in sorted(self._pinset, key=str):
            self._answer_or_not()
            yield Listed(cid, int(cid in self._fetched))

    # What happens to it.

    def provide(self, cid: Cid) -> None:
        """From now on somebody has *cid*."""
        self.tick()
        self._available.add(cid)

    def forget(self, cid: Cid) -> None:
        """From now on nobody has it, but for a cluster that has fetched it."""
        self.tick()
        self._available.discard(cid)

    def tick(self) -> None:
        """Catch up with the clock: commit a batch of age, fetch what there is to fetch."""
        now = self._clock()
        if self.commits_at is not None and now >= self.commits_at:
            self.commit()
        for cid, since in self._pinset.items():
            if cid in self._available and now >= since + (FETCH_SECONDS if self.batch_age else 0):
                self._fetched.add(cid)

    def commit(self) -> None:
        """The open batch becomes durable and is seen."""
        for last_request, cid in self._batch:
            if last_request is LastRequest.PIN:
                self._pinset.setdefault(cid, self._clock())
            else:
                self.lose(cid)
        self.kill()

    def kill(self) -> None:
        """It is killed and starts again: the open batch is lost."""
        self._batch, self.commits_at = [], None

    def lose(self, cid: Cid) -> None:
        """A pin is gone without anybody's request."""
        self._pinset.pop(cid, None)
        self._fetched.discard(cid)

    def lose_blocks(self, cid: Cid) -> None:
        """What was fetched is gone, and the pin is not: fetched again when it is asked for."""
        self.tick()
        if cid in self._fetched:
            self._fetched.discard(cid)
            self._pinset[cid] = inf

    def wipe(self) -> None:
        """All is lost."""
        self.kill()
        for cid in list(self._pinset):
            self.lose(cid)

    def put(self, cid: Cid) -> None:
        """Somebody else pins *cid*."""
        self._pinset.setdefault(cid, self._clock())

    # What is true of it, for whoever checks.

    def keeps(self, cid: Cid) -> bool:
        """Whether *cid* is there, and stays whether the open batch is lost or not."""
        self.tick()
        last = [last_request for last_request, each in self._batch if each == cid][-1:]
        return cid in self._fetched and last != [LastRequest.UNPIN]

    def may_keep(self) -> set[Cid]:
        """What is there, or will be if the open batch is not lost."""
        self.tick()
        return {
            *self._pinset,
            *(cid for last_request, cid in self._batch if last_request is LastRequest.PIN),
        }

    def _hear_nothing(self) -> UpstreamUnavailable:
        return UpstreamUnavailable("The cluster cannot be reached.")

    def _answer_or_not(self) -> None:
        self.tick()
        if self.mood is Mood.AWAY:
            raise self._hear_nothing()

    async def _hear(self, what: str, cid: Cid) -> None:
        await self.meanwhile(what, cid)
        self._answer_or_not()
        if self.mood is Mood.DEAF:
            raise self._hear_nothing()
        if self.mood is Mood.BUSY:
            raise PinDeferred("The queue is full.")

    def _take(self, last_request: LastRequest, cid: Cid) -> None:
        self._batch.append((last_request, cid))
        if self.commits_at is None:
            self.commits_at = self._clock() + self._window
        self.tick()

    def _reply(self) -> None:
        if self.mood is Mood.MUTE:
            raise UpstreamTimeout("The cluster did not answer in time.")
        if self.mood is Mood.SLOW:
            raise TimeoutError

    def _sighting(self, cid: Cid) -> BackendStatus:
        if self.mood is Mood.VAGUE:
            return BackendStatus(TrackerStatus.UNKNOWN, reason="It could not say.")
        if cid not in self._pinset:
            return BackendStatus(TrackerStatus.ABSENT)
        if cid in self._fetched:
            return BackendStatus(TrackerStatus.PINNED, 1)
        if self._pinset[cid] == inf:
            return BackendStatus(TrackerStatus.LOST, 0, 1, reason="Its blocks are gone.")
        if self._clock() < self._pinset[cid] + GIVE_UP_SECONDS:
            return BackendStatus(TrackerStatus.PINNING)
        return BackendStatus(TrackerStatus.FAILED, reason="Nobody has it.")
