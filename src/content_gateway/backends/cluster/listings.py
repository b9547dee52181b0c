"""Whole listings of an IPFS Cluster, kept for a while so that one answers for many questions.

A listing is taken once asking one by one has cost about as much: a cluster of ten million pins is
not listed for fifty new ones, and after an import nobody asks for each. Knows what a line of each
listing proves and what it does not; what follows for a content is said in status_queries.py."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from content_gateway.backends.cluster.in_progress import (
    LONGEST_WAIT,
    MOST_ENTRIES,
    SHARE,
    InProgress,
    TooLong,
)
from content_gateway.backends.cluster.peers import ClusterPeers
from content_gateway.backends.cluster.status import (
    WHO,
    Allocation,
    PeerInfo,
    read_allocation,
    read_member,
    read_status,
    read_unwell,
)
from content_gateway.errors import UpstreamError, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import Peer
from content_gateway.net.http_client import json_object

MAX_LINE_BYTES: Final = 256 * 1024
_KEPT_SECONDS: Final = 300.0
# What a peer has taken for its own and has not got. Without "pinned", whose lines are as many as
# there are pins. That a peer does not answer shows in the lines of others alone, if there are any.
UNWELL: Final = "/pins?filter=pin_error,unexpectedly_unpinned,pinning,pin_queued"
_MOST_UNWELL: Final = 1_000_000
_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 20.0
_LINES_AT_ONCE: Final = 100  # the event loop is nobody's own
# How many lines cost as much as one question. Measured on three peers, in ms of CPU: an allocation
# takes 0.5 and a line of the pinset 0.026; a status, which asks the node of every peer, 3.7, and a
# line of what they hold 0.24.
_LINES_A_READ: Final = 20
_LINES_A_STATUS: Final = 16
_LEAST_READS: Final = 50
_LEAST_STATUSES: Final = 100
_FEW: Final = 5  # so many times fewer than all of its lines cost
_WORTH_LINES: Final = 4  # for each content that waits: then it costs a sixth of its pin

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Peers that hold a content; all of the cluster's *members* are to, if it names none."""

    peers: tuple[Peer, ...]
    allocations: int
    members: int


class Listing(Generic[T]):
    """What a listing has said of each CID, as it was at *taken_at* or a little later."""

    def __init__(self, taken_at: float, entries: Mapping[int, T]) -> None:
        self.taken_at = taken_at
        self._entries = entries

    def of(self, cid: Cid) -> T | None:
        """What it said of *cid*; None: nothing."""
        return self._entries.get(hash(str(cid)))

    def __len__(self) -> int:
        return len(self._entries)


class Rented(Generic[T]):
    """One kind of listing: *take* makes it, when that is worth *lines* of it for a question.

    A single question is cheaper than a long listing, many of them are not."""

    def __init__(
        self,
        take: Callable[[], Awaitable[Mapping[int, T]]],
        clock: Callable[[], float],
        *,
        lines: int,
        least: int,
    ) -> None:
        self._take = take
        self._clock = clock
        self._lines = lines
        self._least = least
        self._kept: Listing[T] | None = None
        self._spent = self._earned = 0
        self._size = 0
        self._not_before = self._taken_at = -math.inf
        self._turn = asyncio.Lock()

    def kept(self) -> Listing[T] | None:
        """The last listing, unless it is too old for anything."""
        kept = self._kept
        if kept is not None and self._clock() - kept.taken_at > _KEPT_SECONDS:
            kept = self._kept = None
        return kept

    def answered(self, questions: int) -> None:
        """The last listing has answered so many, which need not be asked."""
        self._earned += questions

    def has_lines(self, number: int) -> None:
        """Somebody else has listed it all, and there are so many lines."""
        self._size = number

    def is_shorter_than(self, questions: int) -> bool:
        """Whether so many questions would cost more than all of a listing's lines."""
        return questions * self._lines > self._size

    async def worth(self, questions: int) -> bool:
        """Whether a new listing was taken, as so many more *questions* would cost more."""
        before = self._kept
        async with self._turn:
            if self._kept is not before:
                return True  # somebody else was waited for
            self._spent += questions
            # What the last listing has saved counts too: it has paid for the next, if that will
            # answer for some.
            is_for_some = _FEW * questions * self._lines >= self._size
            earned = self._spent + (self._earned if is_for_some else 0)
            if not questions or earned < max(self._least, self._size / self._lines):
                return False
            return await self._taken()

    async def now_and_then(self, done: Callable[[], Awaitable[int]], waited: float) -> bool:
        """Whether a new listing was taken: when so many are *done* that they are a part of its
        lines, or the first of them has *waited* for long, and never most of the time."""
        if self._turn.locked() or self._clock() < self._not_before:
            return False
        async with self._turn:
            is_late = min(waited, self._clock() - self._taken_at) >= LONGEST_WAIT
            if not is_late:
                number = await done()
                if not number or _WORTH_LINES * number < self._size:
                    return False
            return await self._taken()

    async def _taken(self) -> bool:
        self._spent, self._earned = 0, 0
        self._taken_at = taken_at = self._clock()
        try:
            entries = await self._take()
        except UpstreamError as wrong:
            log.info("a listing of the cluster was not read", reason=wrong.detail)
            if isinstance(wrong, TooLong):
                self._size = 10 * MOST_ENTRIES * self._lines
            return False
        finally:
            now = self._clock()
            self._not_before = now + min(LONGEST_WAIT, max(0.5, SHARE * (now - taken_at)))
        self._kept, self._size = Listing(taken_at, entries), len(entries)
        return True


class ListingHealth:
    """Which of the *members* answer, and how much of what they should hold is missing."""

    def __init__(self, members: Sequence[PeerInfo]) -> None:
        self._members = frozenset(member.id for member in members)
        self._well = frozenset(member.id for member in members if member.is_well)
        self._missing: dict[int, int] = {}

    def note(self, value: Mapping[str, Any]) -> None:
        """Take note of a line of the listing of what is not well; of the first million of them."""
        text, missing = read_unwell(value)
        if missing and len(self._missing) < _MOST_UNWELL:
            self._missing[hash(text)] = missing

    def of(self, value: Mapping[str, Any], pin: Allocation) -> tuple[int, int]:
        """For a line of the pinset, *pin*: how many peers hold it, of how many that should."""
        peers = frozenset(pin.peers) or self._members
        missing = self._missing.get(hash(value.get("cid")), 0)
        return max(0, len(peers & self._well) - missing), len(peers)


class Listings:
    """One cluster's listings: its *pinset*, what its peers hold *pinned*, and *in_progress*."""

    def __init__(self, peers: ClusterPeers, clock: Callable[[], float]) -> None:
        self._peers = peers
        self._clock = clock
        self.in_progress = InProgress(self.members, partial(lines_of, peers), clock)
        self.pinset = Rented(self._pinset, clock, lines=_LINES_A_READ, least=_LEAST_READS)
        self.pinned = Rented(self._pinned, clock, lines=_LINES_A_STATUS, least=_LEAST_STATUSES)

    async def members(self) -> list[PeerInfo]:
        """Every peer that the cluster counts as its own now; raises UpstreamError."""
        return [read_member(value) async for value in lines_of(self._peers, "/peers")]

    async def _pinset(self) -> Mapping[int, Allocation]:
        """What is wanted, by the hash of its CID; not whether anybody holds it."""
        entries: dict[int, Allocation] = {}
        same: dict[Allocation, Allocation] = {}
        async with aclosing(lines_of(self._peers, "/allocations?filter=all")) as lines:
            async for value in lines:
                pin = read_allocation(value)
                _put(entries, value, same.setdefault(pin, pin))
        self.pinned.has_lines(len(entries))
        return entries

    async def _pinned(self) -> Mapping[int, Everywhere]:
        """What peers hold, by their own word: one that has not heard of a pin does not name it."""
        members = len(await self.members())
        entries: dict[int, Everywhere] = {}
        same: dict[Everywhere, Everywhere] = {}
        async with aclosing(lines_of(self._peers, "/pins?filter=pinned")) as lines:
            async for value in lines:
                status = read_status(value)
                # Without their times, which the listing has of the pin only, many are the same.
                peers = tuple(
                    Peer(peer.name, peer.status) for peer in status.peers if peer.status == "pinned"
                )
                held = Everywhere(peers, status.allocations, members)
                _put(entries, value, same.setdefault(held, held))
        return entries


def _put(entries: dict[int, T], value: Mapping[str, Any], entry: T) -> None:
    if len(entries) == MOST_ENTRIES:
        raise TooLong(f"The cluster lists more than {MOST_ENTRIES} pins.")
    entries[hash(value.get("cid"))] = entry


async def lines_of(
    peers: ClusterPeers,
    path: str,
    *,
    seconds: float = _SECONDS,
    idle_seconds: float = _IDLE_SECONDS,
) -> AsyncGenerator[dict[str, Any], None]:
    """The objects of a listing, one a line, from the first peer that gives one.

    Raises UpstreamError where it breaks off. An error that the cluster itself has in the middle
    shows in a trailer only, which we cannot read: that a line is missing proves nothing."""
    async with peers.stream(path, seconds=seconds, idle_seconds=idle_seconds) as answer:
        if answer.status == 204:  # an empty stream
            return
        if answer.status != 200:
            raise UpstreamUnavailable(f"The cluster answered {answer.status} to a listing.")
        number = 0
        async for line in answer.lines(MAX_LINE_BYTES):
            yield json_object(line, who=WHO)
            number += 1
            if number % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)
