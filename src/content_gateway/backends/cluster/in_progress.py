"""What the peers of an IPFS Cluster have in hand: queued, or being pinned.

They read it from a table of their own: neither their nodes nor the pinset are asked, so that it
costs little where little is under way. Knows what a line of this listing says and what it does not
prove; what follows is left to whoever asks."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence, Set
from contextlib import aclosing
from typing import Any, Final

import structlog

from content_gateway.backends.cluster.status import PeerInfo
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamUnavailable
from content_gateway.model.cid import Cid

_WORDS: Final = ("pin_queued", "pinning")
_LISTING: Final = f"/pins?filter={','.join(_WORDS)}"
MOST_ENTRIES: Final = 300_000  # some 40 MB
_MEMBERS_SECONDS: Final = 30.0  # for which a peer counts after its last sign of life, about
_LIKE_NEW: Final = 1.0
_HEARD_SECONDS: Final = 0.5  # until all peers have heard of a pin, mostly
SHARE: Final = 20  # a listing is taken again after so many times what the last one took
LONGEST_WAIT: Final = 15.0

log = structlog.get_logger(__name__)


class TooLong(UpstreamUnavailable):
    """A listing has more lines than are kept."""


class InProgress:
    """The listing of one cluster with these *members*, as *lines_of* reads it."""

    def __init__(
        self,
        members: Callable[[], Awaitable[Sequence[PeerInfo]]],
        lines_of: Callable[[str], AsyncGenerator[dict[str, Any], None]],
        clock: Callable[[], float],
    ) -> None:
        self._members = members
        self._lines_of = lines_of
        self._clock = clock
        self._number, self._counted_at = 0, -math.inf
        self._last: Set[str] = frozenset()
        self._listed_at = self._not_before = -math.inf

    async def listed(self) -> Mapping[str, bool]:
        """The CIDs that some peer has in progress, and whether most allocations are pinned by now.

        The others are done with it, or have given it up, which takes longer."""
        if not 0 <= self._clock() - self._counted_at < _MEMBERS_SECONDS:
            self._number, self._counted_at = len(await self._members()), self._clock()
        return await self._list()

    async def done(self, submitted: Mapping[Cid, float]) -> int:
        """How many of what was *submitted*, and when, no peer has in hand any more: so many a
        listing may show as pinned. Asked once a second at most; 0 in between.

        It proves nothing: a peer that has not heard of a pin has it not in hand either."""
        now = self._clock()
        if now < self._not_before:
            return 0
        try:
            if now - self._listed_at > _LIKE_NEW:
                await self._list()
        except UpstreamError as wrong:
            log.info("what the cluster has in hand was not read", reason=wrong.detail)
            return 0
        finally:
            took = self._clock() - now
            self._not_before = now + took + max(1.0, min(LONGEST_WAIT, SHARE * took))
        old = [cid for cid, at in submitted.items() if at < self._listed_at - _HEARD_SECONDS]
        return sum(str(cid) not in self._last for cid in old)

    async def _list(self) -> Mapping[str, bool]:
        began, found = self._clock(), dict[str, bool]()
        async with aclosing(self._lines_of(_LISTING)) as lines:
            async for value in lines:
                cid, peers, wanted = read_line(value)
                found[cid] = 2 * peers > (wanted or self._number)
                if len(found) > MOST_ENTRIES:
                    raise TooLong(f"The cluster has more than {MOST_ENTRIES} pins in hand.")
        self._last, self._listed_at = found.keys(), began
        return found


def read_line(value: Mapping[str, Any]) -> tuple[str, int, int]:
    """Which CID it is, how many peers have it in hand, and how many are named in its pin (0: all
    are to keep it); raises InvalidUpstreamResponse."""
    cid, peers, named = value.get("cid"), value.get("peer_map"), value.get("allocations")
    if not (isinstance(cid, str) and isinstance(peers, dict) and isinstance(named, list | None)):
        raise InvalidUpstreamResponse(
            "The cluster's listing of what is in hand has a line that is none."
        )
    said = [peer.get("status") for peer in peers.values() if isinstance(peer, dict)]
    return cid, sum(word in _WORDS for word in said), len(named or ())
