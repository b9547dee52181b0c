"""IPFS Cluster over its REST API, as a pin backend.

Knows the API's calls and their traps (docs/facts/pins.md): what is not in the pinset looks like
what has not begun until `/allocations` is asked, a failed pin is recovered and never sent again,
and an accepted change may be lost while a batch is open. The reconciler decides when to ask."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

import structlog

from content_gateway.backends.cluster.listings import UNWELL, ListingHealth, Listings, lines_of
from content_gateway.backends.cluster.peers import OTHERS_SECONDS, ClusterPeers, Login
from content_gateway.backends.cluster.requests import pin_options, useful, with_origins
from content_gateway.backends.cluster.status import (
    UNTRACKED,
    error_message,
    first_object,
    good,
    is_absent,
    read_addresses,
    read_allocation,
    read_cid,
    read_entry,
    read_origins,
    read_status,
)
from content_gateway.backends.cluster.status_queries import STATUS_SECONDS, StatusQueries
from content_gateway.errors import (
    InvalidCid,
    InvalidUpstreamResponse,
    PinDeferred,
    PinFailed,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Listed, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import Answer, HttpClient

log = structlog.get_logger(__name__)

CONCURRENT_PINS: Final = 10  # a peer's, by its defaults (pintracker/stateless/config.go)
_PINSET_SECONDS: Final = 3600.0
_PINSET_IDLE_SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 1000


class IpfsCluster:
    """One cluster, through the REST API of some of its peers, at *urls*.

    Fewer than *replication_min* replicas are not enough; 0 leaves that to the cluster, -1 wants
    all of its peers. *replication_max* 0 is as many as the least. *seconds* bounds a call that is
    answered from memory, *status_seconds* one that other peers are asked for. Each peer is at
    *workers* pins at a time. Raises
    WrongSettings for factors that the cluster would refuse."""

    def __init__(
        self,
        outbound: HttpClient,
        urls: Sequence[str],
        *,
        username: str = "",
        password: str = "",
        token: str = "",
        jwt: bool = False,
        replication_min: int = 0,
        replication_max: int = 0,
        seconds: float = 10.0,
        status_seconds: float = STATUS_SECONDS,
        batch_age: float = 60.0,
        workers: int = CONCURRENT_PINS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._peers = ClusterPeers(
            outbound, urls, Login(username, password, token, jwt), seconds=seconds, clock=clock
        )
        self._min = replication_min
        self._options = pin_options(replication_min, replication_max)
        self._status_seconds = max(seconds, status_seconds)
        self._seconds = seconds
        self._batch_age = batch_age
        self.workers = workers
        self._reported: set[str] = set()
        self._listings = Listings(self._peers, clock)
        self._queries = StatusQueries(
            self._peers,
            self._listings,
            clock,
            least=replication_min,
            batch_age=self.batch_age,
            seconds=self._status_seconds,
        )

    @property
    def batch_age(self) -> float:
        """Seconds from before a call until its change is committed, or lost: the call may take its
        time, and a batch of accepted changes stays open for a while after that."""
        return self._seconds + self._batch_age

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        """What the cluster holds of each of *cids*."""
        return await self._queries.status(cids, ages or {}, frozenset(unsent))

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        """Put *cid* into the pinset, or have its peers try again where it is there; where one of
        them is gone, writing it again finds another one.

        *origins* become part of the pin: its peers' nodes connect to them before they fetch.
        *progress* is never called: the cluster does not say how far a retrieval is."""
        known = useful(origins)
        words = {peer.status for peer in seen.peers}
        is_there = seen.status is TrackerStatus.FAILED or (
            seen.status is TrackerStatus.LOST
            and "cluster_error" not in words
            and not words & UNTRACKED
        )
        if is_there and await self._has_origins(cid, known):
            return await self._recover(cid)
        is_new = self._queries.submissions.forget(cid)
        path = f"/pins/{cid}{with_origins(self._options, known)}"
        # Who has not heard of it will not by our telling the others once more.
        first = {peer.name for peer in seen.peers if peer.status in UNTRACKED}
        answer = await self._write("POST", path, cid, first=first)
        if answer.status == 400:
            raise PinFailed(f"The cluster refuses the pin: {error_message(answer.body)}")
        try:
            pin = read_allocation(first_object(answer.body))
        except InvalidUpstreamResponse as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        self._queries.submissions.add(cid, pin, is_new=is_new)
        wanted = self._queries.goal(pin) or max(len(pin.peers), 1)
        return BackendStatus(TrackerStatus.QUEUED, seen.replicas, wanted)

    async def unpin(self, cid: Cid) -> None:
        """Take *cid* out of the pinset; also no error where it was accepted and its batch is still
        open, and then it is pinned afterwards all the same.

        A peer that has no such pin says nothing of the others, who may not have heard that it is
        gone; the first that has it is told by us."""
        self._queries.submissions.forget(cid)
        answer = await self._write("DELETE", f"/pins/{cid}", cid)
        if is_absent(answer):
            await self._unpin_elsewhere(cid)
        if answer.status == 400:
            raise UpstreamUnavailable(f"The cluster answered 400: {error_message(answer.body)}")

    async def _unpin_elsewhere(self, cid: Cid) -> None:
        """Of peers that cannot be asked now, whoever comes back hears of it from the others."""
        for peer in self._peers.order():
            if not peer.failing:
                with suppress(UpstreamError):
                    answer = await self._peers.ask_one(
                        peer, "DELETE", f"/pins/{cid}", OTHERS_SECONDS
                    )
                    if answer.status == 200:
                        return

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        """Every CID in the pinset, as one peer streams it; pins we could not name are left out.

        The pinset says who should hold a content, `/peers` which of them are there with their
        nodes, and a listing of failed pins what those have lost: no peer is asked about each.
        Raises UpstreamError where it breaks off. An error of the cluster itself shows in a trailer
        only, which we cannot read: each content that seems to be missing must be checked."""
        listing = lines_of(
            self._peers,
            "/allocations?filter=all",
            seconds=_PINSET_SECONDS,
            idle_seconds=_PINSET_IDLE_SECONDS,
        )
        health = await self._health()
        async with aclosing(listing) as lines:
            async for value in lines:
                cid = self._entry(value)
                if cid is not None:
                    pin = read_allocation(value)
                    replicas, peers = health.of(value, pin)
                    yield Listed(cid, replicas, self._queries.goal(pin) or peers)

    async def _health(self) -> ListingHealth:
        """Who is there, and what of their part is missing. Where a peer has frozen, and the
        listing of what is missing never ends, the first of it alone is what can be said."""
        health = ListingHealth(await self._listings.members())
        listing = lines_of(
            self._peers, UNWELL, seconds=_PINSET_SECONDS, idle_seconds=_PINSET_IDLE_SECONDS
        )
        try:
            async with aclosing(listing) as lines:
                async for value in lines:
                    health.note(value)
        except UpstreamError as wrong:
            log.warning("what the cluster has lost was not listed", reason=wrong.detail)
        return health

    async def in_progress(self) -> Mapping[str, bool]:
        """As `BackendQueue.in_progress`. Costs little: neither pinset nor nodes are asked."""
        return await self._listings.in_progress.listed()

    async def addresses(self) -> Sequence[str]:
        """Where the IPFS nodes of all peers are reachable. Raises UpstreamError for a list cut
        short."""
        found: list[str] = []
        async with aclosing(lines_of(self._peers, "/peers", seconds=self._status_seconds)) as lines:
            async for value in lines:
                found += read_addresses(value)
                if len(found) >= _MOST_ADDRESSES:
                    break
        return found

    def _entry(self, value: Mapping[str, Any]) -> Cid | None:
        text = read_entry(value)
        if text is None:
            return None
        try:
            return Cid.parse(text)
        except InvalidCid as odd:
            # Somebody else's pin, of a codec or hash that we would not have accepted.
            if text not in self._reported and len(self._reported) < 1000:
                self._reported.add(text)
                log.info("the cluster has a pin that is none of ours", cid=text, why=odd.detail)
            return None

    async def _has_origins(self, cid: Cid, origins: Sequence[Multiaddr]) -> bool:
        """Whether all of *origins* are in the pin of *cid*; no where there is no such pin."""
        if not origins:
            return True
        answer = await self._peers.ask("GET", f"/allocations/{cid}")
        if answer.status != 200:
            return False
        try:
            kept = read_origins(first_object(answer.body))
        except InvalidUpstreamResponse as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        return {origin.key for origin in origins} <= {origin.key for origin in kept}

    async def _recover(self, cid: Cid) -> BackendStatus:
        answer = await self._write("POST", f"/pins/{cid}/recover", cid, self._status_seconds)
        try:
            status = read_status(first_object(good(answer).body))
        except InvalidUpstreamResponse as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        return status.status(self._min if self._min > 0 else None)

    async def _write(
        self,
        method: str,
        path: str,
        cid: Cid,
        seconds: float | None = None,
        first: Collection[str] = (),
    ) -> Answer:
        """The answer to a change: 200, 400, or the 404 that says that there is no such pin.

        Of a peer named in *first*, if we may ask one of them."""
        try:
            answer = await self._peers.ask(method, path, seconds, first)
        except InvalidUpstreamResponse as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        message = error_message(answer.body)
        if answer.status == 500 and message:
            raise PinDeferred(f"The cluster could not do it now: {message}")
        if not (_is_about(cid, answer) or (answer.status == 400 and message)):
            raise UpstreamUnavailable(f"The cluster answered {answer.status}; is it a cluster?")
        return answer


def _is_about(cid: Cid, answer: Answer) -> bool:
    """Whether it is a pin or a status of *cid*, or says that there is no such pin."""
    if answer.status != 200:
        return is_absent(answer)
    try:
        return read_cid(first_object(answer.body)) == cid
    except InvalidUpstreamResponse:
        return False
