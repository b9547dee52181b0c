"""What an IPFS Cluster is to keep, by its pinset: read one by one, or from a listing.

An allocation is read from one peer's memory: it says who should hold a pin, and nothing of who does
(status_queries.py finds that out). A listing answers for many where what it proves is enough: that
a pin is there for good, once it is older than the last request and its batch; an absence only of
what was never submitted, as a pin may have come through another peer a moment ago.

Peers may not hear of each other's changes for many minutes. So what one of them has not got is
absent only once the others that we may ask say so too: otherwise we would forget a released content
that stays on the node of whoever has not heard of it."""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from content_gateway.backends.cluster.listings import Listings
from content_gateway.backends.cluster.peers import OTHERS_SECONDS, ClusterPeers, most_telling
from content_gateway.backends.cluster.status import (
    Allocation,
    first_object,
    good,
    is_absent,
    read_allocation,
)
from content_gateway.backends.cluster.submissions import Submissions
from content_gateway.errors import UpstreamError
from content_gateway.model.cid import Cid

CALLS_AT_ONCE: Final = 8


class Wanted:
    """The pinset of one cluster, into which *submissions* were put by us, for good once they are
    *batch_age* seconds old; *least* replicas are enough."""

    def __init__(
        self,
        peers: ClusterPeers,
        listings: Listings,
        submissions: Submissions,
        *,
        clock: Callable[[], float],
        least: int,
        batch_age: float,
    ) -> None:
        self._peers = peers
        self._listings = listings
        self._submissions = submissions
        self._clock = clock
        self._least = least
        self._batch_age = batch_age

    async def pins(
        self, cids: Sequence[Cid], ages: Mapping[Cid, float], unsent: Collection[Cid]
    ) -> dict[Cid, Allocation | UpstreamError | None]:
        """The pins of *cids* in the pinset, None where it has none, or why that is not known."""
        pinset = self._listings.pinset
        found = self._listed(cids, ages, unsent)
        pinset.answered(len(found))
        may_be_listed = [cid for cid in cids if cid not in found and self._oldest(cid, ages) > 0]
        if await pinset.worth(len(may_be_listed)):
            found |= self._listed(cids, ages, unsent)
        at_once = asyncio.Semaphore(CALLS_AT_ONCE)
        rest = [cid for cid in cids if cid not in found]
        read = await asyncio.gather(
            *(self.read(cid, at_once, is_unsent=cid in unsent) for cid in rest)
        )
        return found | dict(zip(rest, read, strict=True))

    def _listed(
        self, cids: Sequence[Cid], ages: Mapping[Cid, float], unsent: Collection[Cid]
    ) -> dict[Cid, Allocation | UpstreamError | None]:
        """What the last listing is good enough for."""
        listing = self._listings.pinset.kept()
        found: dict[Cid, Allocation | UpstreamError | None] = {}
        if listing is None:
            return found
        age = self._clock() - listing.taken_at
        for cid in cids:
            pin = listing.of(cid)
            if pin is None:
                if cid in unsent and math.isinf(self._submissions.since(cid)):
                    found[cid] = None
            elif age < self._oldest(cid, ages) and pin.suffices(self._least):
                found[cid] = pin
        return found

    def _oldest(self, cid: Cid, ages: Mapping[Cid, float]) -> float:
        """How old a listing that has *cid* may be, to prove that its pin is there for good."""
        since = self._submissions.since(cid)
        return ages.get(cid, 0.0) if math.isinf(since) else since - self._batch_age

    async def read(
        self, cid: Cid, at_once: asyncio.Semaphore | None = None, *, is_unsent: bool = False
    ) -> Allocation | UpstreamError | None:
        """As `pins`, for one *cid*, asked of a peer in its turn by *at_once*.

        *is_unsent*: it was never submitted, and one peer that has no such pin is believed."""
        errors: list[UpstreamError] = []
        is_missed = False
        async with at_once or nullcontext():
            for peer in self._peers.order():
                if is_missed and peer.failing:
                    continue  # it hears of what was released when it is back
                seconds = OTHERS_SECONDS if is_missed else None
                try:
                    answer = await self._peers.ask_one(peer, "GET", f"/allocations/{cid}", seconds)
                    if not is_absent(answer):
                        pin = read_allocation(first_object(good(answer).body))
                        return replace(pin, is_unheard=is_missed)
                    is_missed = True
                    if is_unsent:
                        break
                except UpstreamError as error:
                    errors.append(error)
        return None if is_missed else most_telling(errors)
