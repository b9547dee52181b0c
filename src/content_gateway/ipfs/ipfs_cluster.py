"""IPFS Cluster over its REST API, as a pin backend.

Knows the API's calls and their traps (facts-pins sections 2 and 5): what is not in the pinset
looks like what is not begun until `/allocations` was asked, a pin that failed is recovered and
never sent again, and an accepted change may be lost while a batch is open. When to look and when
to ask is the reconciler's business."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.holdings import Holding, Sighting
from content_gateway.errors import (
    InvalidCid,
    PinDeferred,
    PinFailed,
    UpstreamError,
    UpstreamNonsense,
    UpstreamUnavailable,
)
from content_gateway.ipfs.cluster_peers import ClusterPeer, ClusterPeers, Login, most_telling
from content_gateway.ipfs.cluster_requests import batches, pin_options
from content_gateway.ipfs.cluster_status import (
    Allocation,
    Status,
    error_message,
    first_object,
    read_allocation,
    read_cid,
    read_entry,
    read_status,
    read_statuses,
)
from content_gateway.outbound import Answer, Outbound

log = structlog.get_logger(__name__)

NOT_IN_PINSET: Final = "pin is not part of the pinset"
# It asks every allocated peer for a status and waits up to 15 s for one that is dead.
_STATUS_SECONDS: Final = 25.0
_CALLS_AT_ONCE: Final = 8
_PINSET_SECONDS: Final = 3600.0
_PINSET_IDLE_SECONDS: Final = 60.0
_MAX_LINE_BYTES: Final = 256 * 1024


class IpfsCluster:
    """One cluster, through the REST API of some of its peers, at *urls*.

    Fewer than *replication_min* replicas are not enough; 0 leaves that to the cluster, -1 wants
    all of its peers. *replication_max* 0 is as many as the least. *seconds* bounds a call that is
    answered from memory, *status_seconds* one that other peers are asked for. Raises
    WrongSettings for factors that the cluster would refuse."""

    def __init__(
        self,
        outbound: Outbound,
        urls: Sequence[str],
        *,
        username: str = "",
        password: str = "",
        token: str = "",
        jwt: bool = False,
        replication_min: int = 0,
        replication_max: int = 0,
        seconds: float = 10.0,
        status_seconds: float = _STATUS_SECONDS,
        batch_age: float = 60.0,
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
        self._reported: set[str] = set()

    @property
    def batch_age(self) -> float:
        """Seconds from before a call until its change is committed, or lost: the call may take its
        time, and a batch of accepted changes stays open for a while after that."""
        return self._seconds + self._batch_age

    async def look(self, cids: Sequence[Cid]) -> Mapping[Cid, Sighting]:
        """What the cluster holds of each of *cids*; UNKNOWN where it could not say.

        Raises UpstreamError when it could say nothing of any."""
        wanted = list(dict.fromkeys(cids))
        orders = {cid: self._peers.order(bytes(cid)) for cid in wanted}
        seen: dict[Cid, Sighting] = {}
        errors: list[UpstreamError] = []
        turns = len(orders[wanted[0]]) if wanted else 0
        for turn in range(turns):
            groups: dict[ClusterPeer, list[Cid]] = {}
            for cid in wanted:
                if cid not in seen:
                    groups.setdefault(orders[cid][turn], []).append(cid)
            for answer in await self._look_at_all(groups):
                if isinstance(answer, UpstreamError):
                    errors.append(answer)
                else:
                    seen.update(answer)
        if errors and not seen:
            raise most_telling(errors)
        missing = Sighting(Holding.UNKNOWN, reason="The cluster did not say what it has.")
        return {cid: seen.get(cid, missing) for cid in wanted}

    async def pin(self, cid: Cid, seen: Sighting, progress: Callable[[int, int], None]) -> Sighting:
        """Put *cid* into the pinset, or have its peers try again where it is there.

        *progress* is never told: the cluster does not say how far a retrieval is. Raises
        PinFailed when it refuses the CID, PinDeferred when it could not take it now,
        UpstreamUnavailable and UpstreamTimeout."""
        if seen.holding is not Holding.ABSENT:
            return await self._recover(cid)
        answer = await self._write("POST", f"/pins/{cid}{self._options}", cid)
        if answer.status == 400:
            raise PinFailed(f"The cluster refuses the pin: {error_message(answer.body)}")
        try:
            pin = read_allocation(first_object(answer.body))
        except UpstreamNonsense as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        return Sighting(Holding.QUEUED, 0, self._goal(pin) or max(pin.peers, 1))

    async def unpin(self, cid: Cid) -> None:
        """Take *cid* out of the pinset; no error where it is not there.

        Nor where it was accepted and its batch is still open, and then it is pinned afterwards
        all the same. Raises PinDeferred, UpstreamUnavailable and UpstreamTimeout."""
        answer = await self._write("DELETE", f"/pins/{cid}", cid)
        if answer.status == 400:
            raise UpstreamUnavailable(f"The cluster answered 400: {error_message(answer.body)}")

    async def pinset(self) -> AsyncGenerator[Cid, None]:
        """Every CID in the pinset, as one peer streams it; pins we could not name are left out.

        Raises UpstreamError where it breaks off. An error that the cluster itself has in the
        middle shows in a trailer only, which we cannot read: what seems to be missing is to be
        looked for."""
        async with self._peers.stream(
            "/allocations?filter=all",
            seconds=_PINSET_SECONDS,
            idle_seconds=_PINSET_IDLE_SECONDS,
        ) as answer:
            if answer.status == 204:
                return
            if answer.status != 200:
                raise UpstreamUnavailable(f"The cluster answered {answer.status} to a listing.")
            async for line in answer.lines(_MAX_LINE_BYTES):
                cid = self._entry(line)
                if cid is not None:
                    yield cid

    def _entry(self, line: bytes) -> Cid | None:
        text = read_entry(line)
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

    async def _look_at_all(
        self, groups: Mapping[ClusterPeer, Sequence[Cid]]
    ) -> Sequence[Mapping[Cid, Sighting] | UpstreamError]:
        """What each peer says of its group, or why it does not, some calls at a time."""
        at_once = asyncio.Semaphore(_CALLS_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            looks = [
                tasks.create_task(self._look_at(peer, batch, at_once))
                for peer, group in groups.items()
                for batch in batches(group)
            ]
        return [look.result() for look in looks]

    async def _look_at(
        self, peer: ClusterPeer, cids: Sequence[Cid], at_once: asyncio.Semaphore
    ) -> Mapping[Cid, Sighting] | UpstreamError:
        """What *peer* says of *cids*; those that it says nothing of are left out."""
        path = "/pins?cids=" + ",".join(map(str, cids))
        try:
            async with at_once:
                answer = await self._peers.ask_one(peer, "GET", path, self._status_seconds)
            statuses = read_statuses(_good(answer).body)
        except UpstreamError as error:
            return error
        asked = set(cids)
        async with asyncio.TaskGroup() as tasks:
            sightings = {
                status.cid: tasks.create_task(self._understand(peer, status, at_once))
                for status in statuses
                if status.cid in asked
            }
        return {cid: sighting.result() for cid, sighting in sightings.items()}

    async def _understand(
        self, peer: ClusterPeer, status: Status, at_once: asyncio.Semaphore
    ) -> Sighting:
        """What *status* means; the pin itself is read where the status alone does not say."""
        if not status.may_be_absent and not status.replicas:
            return status.sighting(self._min if self._min > 0 else None)
        try:
            async with at_once:
                answer = await self._peers.ask_one(peer, "GET", f"/allocations/{status.cid}")
            if _is_absent(answer):
                return self._absent()
            pin = read_allocation(first_object(_good(answer).body))
        except UpstreamError as error:
            return Sighting(Holding.UNKNOWN, reason=error.detail)
        if not pin.is_pin:
            reason = "The cluster has it as part of content that was added in shards."
            return Sighting(Holding.UNKNOWN, 0, 1, status.peers, reason)
        is_few = self._min > 0 and pin.wanted is not None and pin.wanted < self._min
        if is_few or not pin.keeps_all:
            # Pinned by somebody else, or by us with other settings: on fewer peers, without what
            # it links to, or for a time only. The cluster says "pinned", and it is less than what
            # was promised. A POST makes it whole.
            return self._absent("The cluster keeps less of it than was promised.")
        return status.sighting(self._goal(pin))

    def _goal(self, pin: Allocation) -> int | None:
        """How many replicas of *pin* are enough; None: all of its peers'."""
        return self._min if self._min > 0 else pin.wanted

    def _absent(self, reason: str | None = None) -> Sighting:
        return Sighting(Holding.ABSENT, 0, max(self._min, 1), reason=reason)

    async def _recover(self, cid: Cid) -> Sighting:
        answer = await self._write("POST", f"/pins/{cid}/recover", cid, self._status_seconds)
        try:
            status = read_status(first_object(_good(answer).body))
        except UpstreamNonsense as wrong:
            raise UpstreamUnavailable(wrong.detail) from wrong
        return status.sighting(self._min if self._min > 0 else None)

    async def _write(
        self, method: str, path: str, cid: Cid, seconds: float | None = None
    ) -> Answer:
        """The answer to a change: 200, 400, or the 404 that says that there is no such pin."""
        try:
            answer = await self._peers.ask(bytes(cid), method, path, seconds)
        except UpstreamNonsense as wrong:
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
        return _is_absent(answer)
    try:
        return read_cid(first_object(answer.body)) == cid
    except UpstreamNonsense:
        return False


def _is_absent(answer: Answer) -> bool:
    """Whether it says that there is no such pin; any other 404 says that the URL is wrong."""
    return answer.status == 404 and error_message(answer.body) == NOT_IN_PINSET


def _good(answer: Answer) -> Answer:
    """*answer* if it is a 200 or has no content; raises UpstreamUnavailable."""
    if answer.status in (200, 204):
        return answer
    message = error_message(answer.body) or "no reason given"
    raise UpstreamUnavailable(f"The cluster answered {answer.status}: {message}")
