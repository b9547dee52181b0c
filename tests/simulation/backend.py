"""What the backends in miniature have in common: they are late and lie, on the simulation's clock.

A status is as old as the caller allows. What goes wrong is drawn here within a mood; the moods are
set by chaos.py. What is done about a pin is left to cluster.py and store.py."""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Protocol

from content_gateway.errors import (
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    LastRequest,
    Peer,
    TrackerStatus,
)
from tests.simulation.loop import outside

CALL_SECONDS: Final = 10.0  # a change is taken in so long after its call began, at most
OLDEST_LISTING: Final = 60.0
OLD_LISTING: Final = 20.0  # of contents that were never requested
GIVE_UP: Final = (3.0, 12.0)
ABSENT: Final = BackendStatus(TrackerStatus.ABSENT)


class Mood(Enum):
    """What can be wrong with a backend."""

    WELL = auto()
    SLOW = auto()  # everything takes as long as it may
    AWAY = auto()  # nothing is answered
    DEAF = auto()  # status checks are answered, changes are not taken
    BUSY = auto()  # changes are refused for now
    MUTE = auto()  # changes are taken in, and the answers are lost
    VAGUE = auto()  # status checks show nothing


class Watcher(Protocol):
    """Who sees what the backend is asked for."""

    def request_begins(self, request: LastRequest, cid: Cid) -> object:
        """A change is requested; returns what stands for the call."""

    def request_ends(self, call: object) -> None:
        """Its caller has the answer, or has given up."""

    def moment(self, what: str) -> None:
        """Something has just happened, of which the caller does not know yet."""


class SimulatedBackend:
    """What both have: contents that may be had, statuses as they were, moods and lateness."""

    def __init__(self, chance: random.Random, watcher: Watcher, *, stalest: bool) -> None:
        """*stalest*: statuses are always as old as the caller allows."""
        self.mood = Mood.WELL
        self.fetch_seconds = (0.2, 8.0)
        self._chance = chance
        self._watcher = watcher
        self._stalest = stalest
        self._available: set[Cid] = set()
        self._history: dict[Cid, list[tuple[float, BackendStatus]]] = {}
        self._outside = outside()
        self.began = 0  # how often it was started again

    @property
    def now(self) -> float:
        """Seconds on the loop's clock."""
        return asyncio.get_running_loop().time()

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        asked_at = self.now
        await self._answer_or_not()
        if self.mood is Mood.VAGUE:
            return {cid: BackendStatus(TrackerStatus.UNKNOWN, reason="Who knows.") for cid in cids}
        seen = {cid: self._status_as_of(cid, asked_at, ages or {}, unsent) for cid in cids}
        await self._late(self.now)
        return seen

    def provide(self, cids: Iterable[Cid]) -> None:
        """From now on somebody has *cids*."""
        self._available.update(cids)

    def forget(self, cids: Iterable[Cid]) -> None:
        """From now on nobody has *cids*, but for a backend that has fetched them."""
        self._available.difference_update(cids)

    def _status_as_of(
        self, cid: Cid, asked_at: float, ages: Mapping[Cid, float], unsent: Collection[Cid]
    ) -> BackendStatus:
        """What a listing says that is as old as the caller allows, or the nodes themselves."""
        allowed = ages.get(cid, 0.0)
        log = self._history.get(cid, [])
        if cid in unsent and allowed < OLD_LISTING:
            old = _at(log, asked_at - self._chance.uniform(0, OLD_LISTING))
            if old is ABSENT:
                return old
        if allowed <= 0:
            return self._peers_too(_at(log, self._chance.choice((asked_at, self.now))))
        # A listing is taken again now and then, however old it may be.
        allowed = min(allowed, OLDEST_LISTING)
        age = allowed if self._stalest else self._chance.uniform(0, allowed)
        return _at(log, asked_at - age)

    def _peers_too(self, seen: BackendStatus) -> BackendStatus:
        if seen is ABSENT:
            return seen
        peer = Peer("one", seen.status.name.lower())
        return BackendStatus(seen.status, seen.replicas, seen.wanted, (peer,), seen.reason)

    def _show(self, cid: Cid, status: BackendStatus) -> None:
        self._history.setdefault(cid, []).append((self.now, status))

    async def _answer_or_not(self) -> None:
        """Wait as long as a call takes; raises where nothing is answered."""
        epoch = self.began
        await self._late(self.now)
        if self.mood is Mood.AWAY or epoch != self.began:
            raise UpstreamUnavailable("The backend cannot be reached.")

    async def _late(self, since: float) -> None:
        """Wait some of the time that one half of a call may take, counted from *since*."""
        longest = CALL_SECONDS / 2 if self.mood in (Mood.SLOW, Mood.AWAY) else 0.2
        draw = self._chance.random()
        seconds = longest if draw > 0.8 else 0.05 * longest if draw < 0.5 else draw * longest
        await asyncio.sleep(max(0.0, since + seconds - self.now))

    def _later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        """Call back whatever becomes of the process that asked."""
        asyncio.get_running_loop().call_later(seconds, callback, *args, context=self._outside)


def _at(log: Sequence[tuple[float, BackendStatus]], time: float) -> BackendStatus:
    """The status at that time."""
    for since, status in reversed(log):
        if since <= time:
            return status
    return ABSENT
