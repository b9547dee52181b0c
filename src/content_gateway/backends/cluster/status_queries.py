"""What an IPFS Cluster holds of each content, found out with as few questions as will do.

A status asks every peer, and each of them its IPFS node; an allocation is read from one peer's
memory, and says only what is wanted. So the pinset is asked first, and no peer is asked about what
is not in it; what we have submitted ourselves needs no allocation to be understood, and once all of
its peers have been seen to hold it, only that its pin is still there is left to be confirmed when
the batch it came with is closed. What is wanted is read in allocations.py; of what is held
listings answer for many (listings.py), where what they prove is enough."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeGuard

from content_gateway.backends.cluster.allocations import CALLS_AT_ONCE, Wanted
from content_gateway.backends.cluster.listings import Listings
from content_gateway.backends.cluster.peers import ClusterPeer, ClusterPeers, most_telling
from content_gateway.backends.cluster.requests import batches
from content_gateway.backends.cluster.status import (
    Allocation,
    Status,
    good,
    read_statuses,
)
from content_gateway.backends.cluster.submissions import Submissions
from content_gateway.errors import UpstreamError
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus

# It asks every allocated peer for a status and waits up to 15 s for one that is dead.
STATUS_SECONDS: Final = 25.0
_MANY: Final = 50  # while more of them are under way, none is asked for by itself
_MOST_OF_THEM: Final = 0.9
_LESS: Final = "The cluster keeps less of it than was promised."
_UNHEARD: Final = "Not every peer of the cluster has heard of its last change."
_SHARDS: Final = "The cluster has it as part of content that was added in shards."
_UNKNOWN: Final = BackendStatus(
    TrackerStatus.UNKNOWN, reason="The cluster did not say what it has."
)


class StatusQueries:
    """Looks at one cluster; *least* replicas are enough, 0 leaves that to the pin, -1 is all.

    What is submitted is final *batch_age* seconds later."""

    def __init__(
        self,
        peers: ClusterPeers,
        listings: Listings,
        clock: Callable[[], float],
        *,
        least: int,
        batch_age: float,
        seconds: float,
    ) -> None:
        self._peers = peers
        self._listings = listings
        self._clock = clock
        self._least = least
        self._seconds = seconds
        self.submissions = Submissions(clock, batch_age)
        self._wanted = Wanted(
            peers, listings, self.submissions, clock=clock, least=least, batch_age=batch_age
        )

    def goal(self, pin: Allocation) -> int | None:
        """How many replicas of *pin* are enough; None: all of its peers'."""
        return self._least if self._least > 0 else pin.wanted

    async def status(
        self, cids: Sequence[Cid], ages: Mapping[Cid, float], unsent: Collection[Cid]
    ) -> Mapping[Cid, BackendStatus]:
        """As the port says; raises UpstreamError when nothing could be said of any."""
        wanted = list(dict.fromkeys(cids))
        known = [(cid, self.submissions.of(cid, ages)) for cid in wanted]
        ours = {cid: sent for cid, sent in known if sent is not None}
        unheld = {cid: sent.pin for cid, sent in ours.items() if sent.held is None}
        found = await self._wanted.pins([cid for cid in wanted if cid not in unheld], ages, unsent)
        seen: dict[Cid, BackendStatus] = {}
        errors: list[UpstreamError] = []
        ask = dict(unheld)
        for cid, pin in found.items():
            if isinstance(pin, UpstreamError):
                errors.append(pin)
            elif not self._is_enough(pin):
                seen[cid] = self._insufficient(cid, pin)
            elif cid in ours:
                self.submissions.forget(cid)  # final: the next status is about what became of it
                seen[cid] = ours[cid].held or _UNKNOWN
            else:
                ask[cid] = pin
        seen |= await self._held(ask, ages, errors)
        if errors and not seen:
            raise most_telling(errors)
        return {cid: seen.get(cid, _UNKNOWN) for cid in wanted}

    def _is_enough(self, pin: Allocation | None) -> TypeGuard[Allocation]:
        """Whether *pin* is as was promised, as far as its peers have heard of it."""
        return pin is not None and pin.suffices(self._least) and not pin.is_unheard

    def _insufficient(self, cid: Cid, pin: Allocation | None) -> BackendStatus:
        if pin is None:
            self.submissions.seen_absent(cid)
        else:
            self.submissions.forget(cid)
        if pin is not None and not pin.is_pin:
            return BackendStatus(TrackerStatus.UNKNOWN, 0, 1, reason=_SHARDS)
        if pin is not None and pin.is_unheard:
            return BackendStatus(TrackerStatus.UNTRACKED, 0, max(self._least, 1), reason=_UNHEARD)
        # A POST makes it whole where there is less of it than was promised.
        reason = None if pin is None else _LESS
        return BackendStatus(TrackerStatus.ABSENT, 0, max(self._least, 1), reason=reason)

    async def _held(
        self, pins: Mapping[Cid, Allocation], ages: Mapping[Cid, float], errors: list[UpstreamError]
    ) -> dict[Cid, BackendStatus]:
        """What peers hold of *pins*, of those that could be found out about; *errors* has why."""
        seen = self._listed_as_held(pins, ages)
        self._listings.pinned.answered(len(seen))
        seen |= await self._of_many([cid for cid in pins if cid not in seen], pins, ages)
        may_be_listed = [cid for cid in pins if cid not in seen and ages.get(cid, 0.0) > 0]
        if await self._listings.pinned.worth(len(may_be_listed)):
            seen |= self._listed_as_held(pins, ages)
        rest = [cid for cid in pins if cid not in seen]
        statuses = await self._statuses(rest, errors)
        for cid in rest:
            status = statuses.get(cid)
            if status is not None and not status.may_be_absent:
                seen[cid] = status.as_named(pins[cid].peers).status(self.goal(pins[cid]))
            elif status is not None and cid in ages and self.submissions.may_be_in_a_batch(cid):
                seen[cid] = self._queued(pins[cid])
            elif status is not None and (doubtful := await self._doubtful(cid, status, errors)):
                seen[cid] = doubtful
        seen |= await self._gone(seen, pins, statuses)
        for cid, held in seen.items():
            if held.status is TrackerStatus.PINNED:
                self.submissions.seen_held(cid, held)
        return seen

    async def _gone(
        self,
        seen: Mapping[Cid, BackendStatus],
        pins: Mapping[Cid, Allocation],
        statuses: Mapping[Cid, Status],
    ) -> dict[Cid, BackendStatus]:
        """Those of *seen* that lack a replica because a peer that is to keep it is gone for good,
        as far as the cluster knows: another one can be found for it. Where that was done, and its
        batch is open, its pin has other peers already.

        The cluster counts a peer as its own for a while after its last sign of life, and gives
        it up by itself only where it is told to."""
        doubtful = [
            cid
            for cid, status in seen.items()
            if status.status is TrackerStatus.UNKNOWN and cid in statuses and pins[cid].peers
        ]
        if not doubtful:
            return {}
        try:
            members = {member.id for member in await self._listings.members()}
        except UpstreamError:
            return {}
        return {
            cid: replace(seen[cid], status=TrackerStatus.LOST)
            for cid in doubtful
            if statuses[cid].silent.intersection(pins[cid].peers) - members
        }

    async def _of_many(
        self, cids: Sequence[Cid], pins: Mapping[Cid, Allocation], ages: Mapping[Cid, float]
    ) -> dict[Cid, BackendStatus]:
        """Of those of *cids* that are under way with many others, what a listing says, which is
        taken now and then: asking for each by itself would cost more than pinning it.

        What it does not show yet is what it was when the cluster took it."""
        under_way = self.submissions.under_way()
        number = len(under_way)
        if number <= _MANY or not self._listings.pinned.is_shorter_than(number):
            return {}
        mine = {cid: pins[cid] for cid in cids if cid in under_way and cid in ages}
        if not mine:
            return {}
        queued = {cid: self._queued(pin) for cid, pin in mine.items()}
        waited = self._clock() - next(iter(under_way.values()))
        done = partial(self._done, under_way)
        await self._listings.pinned.now_and_then(done, waited)
        return queued | self._listed_as_held(mine, ages)

    async def _done(self, under_way: Mapping[Cid, float]) -> int:
        """How many seem to be done, where most are: before, a listing would soon need another."""
        done = await self._listings.in_progress.done(under_way)
        return done if done >= _MOST_OF_THEM * len(under_way) else 0

    def _queued(self, pin: Allocation) -> BackendStatus:
        """What the cluster said when it took *pin*, as nothing more is known of it."""
        return BackendStatus(TrackerStatus.QUEUED, 0, self.goal(pin) or max(len(pin.peers), 1))

    def _listed_as_held(
        self, pins: Mapping[Cid, Allocation], ages: Mapping[Cid, float]
    ) -> dict[Cid, BackendStatus]:
        """Those of *pins* that the last listing shows on enough peers, by their own word."""
        listing = self._listings.pinned.kept()
        if listing is None:
            return {}
        age, seen = self._clock() - listing.taken_at, {}
        for cid, pin in pins.items():
            held = listing.of(cid) if age < ages.get(cid, 0.0) else None
            if held is None or held.allocations != len(pin.peers):
                continue
            peers = held.allocations or held.members
            goal = self.goal(pin) or peers
            if len(held.peers) >= min(goal, peers):
                seen[cid] = BackendStatus(TrackerStatus.PINNED, len(held.peers), goal, held.peers)
        return seen

    async def _doubtful(
        self, cid: Cid, status: Status, errors: list[UpstreamError]
    ) -> BackendStatus | None:
        """What it means that no peer has begun with *cid*: it may have no pin, or not yet."""
        pin = await self._wanted.read(cid)
        if isinstance(pin, UpstreamError):
            errors.append(pin)
            return None
        if not self._is_enough(pin):
            return self._insufficient(cid, pin)
        return status.status(self.goal(pin))

    async def _statuses(
        self, cids: Sequence[Cid], errors: list[UpstreamError]
    ) -> dict[Cid, Status]:
        """What all peers say of *cids*, asked through one of them, or the next."""
        at_once = asyncio.Semaphore(CALLS_AT_ONCE)
        found: dict[Cid, Status] = {}
        left = list(cids)
        if not left:
            return found
        for peer in self._peers.order():
            asked = [self._ask(peer, batch, at_once) for batch in batches(left)]
            for answer in await asyncio.gather(*asked):
                if isinstance(answer, UpstreamError):
                    errors.append(answer)
                else:
                    found |= answer
            left = [cid for cid in left if cid not in found]
            if not left:
                break
        return found

    async def _ask(
        self, peer: ClusterPeer, cids: Sequence[Cid], at_once: asyncio.Semaphore
    ) -> dict[Cid, Status] | UpstreamError:
        """What *peer* says of *cids*; those that it says nothing of are left out."""
        path = "/pins?cids=" + ",".join(map(str, cids))
        try:
            async with at_once:
                answer = await self._peers.ask_one(peer, "GET", path, self._seconds)
            statuses = read_statuses(good(answer).body)
        except UpstreamError as error:
            return error
        asked = set(cids)
        return {status.cid: status for status in statuses if status.cid in asked}
