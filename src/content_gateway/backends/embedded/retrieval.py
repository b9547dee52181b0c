"""The retrieval: brings in what is missing of a DAG, from several gateways side by side.

Theory of operation. What is known to be missing are either nodes, which have links, or leaves.
A node is asked for as a CAR of everything below it: one request, verified block by block while
it comes. Links that the CAR reveals belong to it until it ends; what it has not brought by then
is missing again, its nodes by more CARs, its leaves as raw blocks, all of it spread over the
gateways. So a retrieval that was cut off anywhere goes on where it was: what is here is found
by looking, and only the parts below it that lack are asked for.

A gateway whose CAR brings nothing is asked for no more CARs by this pin. One that serves wrong
bytes is named, and not asked for that block again. The first block that nobody has ends it.
Knows nothing of tables: what is here the block store says, what is linked the wantlist."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from content_gateway.backends.embedded.blockstore import Blockstore, PinRow, WriteResult
from content_gateway.backends.embedded.car_download import receive
from content_gateway.backends.embedded.gateway import TrustlessGateway
from content_gateway.backends.embedded.gateways import PeerScore, TrustlessGateways
from content_gateway.backends.embedded.wantlist import Check, Wantlist
from content_gateway.errors import UpstreamError
from content_gateway.ipld.block import LEAVES
from content_gateway.ipld.car import Section
from content_gateway.model.cid import Cid

Progress = Callable[[int, int], None]

MAX_CARS: Final = 4
MAX_MISSING: Final = 20_000
_PROGRESS_SECONDS: Final = 0.25

log = structlog.get_logger(__name__)


class Retrieval:
    """The bringing in of one pin; *parallel* raw blocks are asked for at once, and all
    retrievals share how many *parts* of CARs are worked on."""

    def __init__(
        self,
        blocks: Blockstore,
        gateways: TrustlessGateways,
        pin: PinRow,
        wantlist: Wantlist,
        *,
        parallel: int,
        progress: Progress,
        checker: Callable[[], Check | None],
        parts: asyncio.Semaphore,
    ) -> None:
        self._checker = checker
        self._parts = parts
        self._blocks = blocks
        self._gateways = gateways
        self._pin = pin
        self._wantlist = wantlist
        self._parallel = parallel
        self._progress = progress
        self._told = 0.0
        self._scores = PeerScore()
        self._without_cars: set[TrustlessGateway] = set()
        self._nodes: dict[bytes, Cid] = {}
        self._leaves: dict[bytes, Cid] = {}
        self._of_cars: list[dict[bytes, Cid]] = []  # what each CAR under way may yet bring
        self._fetched: list[Section] = []
        self._cars: set[asyncio.Task[None]] = set()
        self._raws: set[asyncio.Task[None]] = set()
        self._flush: asyncio.Task[None] | None = None
        self._keeping = asyncio.Lock()
        self._is_fresh = True
        self._here = (pin.blocks, pin.size)

    async def run(self) -> None:
        """Bring in everything; when this returns the wantlist is complete.

        Raises ValueError as the wantlist does, and what TrustlessGateways.block and
        Blockstore.store_blocks raise. Blocks that came in before that are kept."""
        while self._wantlist.has_unread and self._may_look_up:
            await self._keep([], None)
        try:
            while self._start():
                jobs = self._cars | self._raws | ({self._flush} if self._flush else set())
                done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
                self._forget(done)
                failures = [failure for job in done if (failure := job.exception())]
                if failures:
                    raise failures[0]
        except UpstreamError:
            await self._stop()
            await self._write_fetched()
            raise
        finally:
            await self._stop()
        self._progress(*self._here)

    def _start(self) -> bool:
        """Begin what can be done now; whether anything is under way."""
        while self._nodes and len(self._cars) < MAX_CARS:
            gateway = self._for_cars()
            if gateway is None:
                self._leaves |= self._nodes  # as raw blocks, then
                self._nodes.clear()
                break
            multihash, cid = self._nodes.popitem()
            self._cars.add(asyncio.create_task(self._car(gateway, multihash, cid)))
        while self._leaves and self._has_room():
            _, cid = self._leaves.popitem()
            self._raws.add(asyncio.create_task(self._raw(cid)))
        if self._fetched and self._flush is None:
            self._flush = asyncio.create_task(self._write_fetched())
        if not (self._cars or self._raws or self._flush) and self._wantlist.has_unread:
            self._flush = asyncio.create_task(self._write_fetched())
        return bool(self._cars or self._raws or self._flush)

    @property
    def _may_look_up(self) -> bool:
        """Whether more links may be looked up: not while many are known to be missing, as each
        of them takes memory, and a gateway may link to a million that nobody has."""
        known = len(self._nodes) + len(self._leaves) + sum(map(len, self._of_cars))
        return known < MAX_MISSING

    def _has_room(self) -> bool:
        """Whether another block may be asked for: not while many wait for the disk."""
        running = len(self._raws)
        return running < self._parallel and running + len(self._fetched) < 2 * self._parallel

    def _for_cars(self) -> TrustlessGateway | None:
        """The gateway to ask for the next CAR."""
        able = [each for each in self._gateways.take_turns() if each not in self._without_cars]
        return min(able, key=self._scores.rank, default=None)

    def _forget(self, done: set[asyncio.Task[None]]) -> None:
        self._cars -= done
        self._raws -= done
        if self._flush in done:
            self._flush = None

    async def _stop(self) -> None:
        """End all work; what a thread is writing now it writes."""
        jobs = [*self._cars, *self._raws, *([self._flush] if self._flush else [])]
        self._forget(set(jobs))
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _car(self, gateway: TrustlessGateway, multihash: bytes, cid: Cid) -> None:
        """Bring in as much as *gateway*'s CAR of *cid* has."""
        own = {multihash: cid}
        self._of_cars.append(own)

        async def keep(sections: Sequence[Section]) -> int:
            return await self._keep(sections, own)

        try:
            ended = await receive(gateway, cid, keep, self._parts)
        finally:
            self._of_cars.remove(own)
        if ended.wrong is not None:
            self._gateways.note_wrong(gateway, ended.wrong)
        if ended.fault is not None:
            log.info("a CAR broke off", gateway=gateway.name, cid=str(cid), reason=ended.fault)
        if not ended.is_busy or gateway.pace.takes_nothing:
            if ended.wrong is not None or not ended.useful:
                self._without_cars.add(gateway)
            self._scores.note(gateway, gave=ended.useful > 0)
        self._want(own)

    async def _raw(self, cid: Cid) -> None:
        data = await self._gateways.block(cid, self._scores)
        self._fetched.append((cid.multihash, data))

    async def _write_fetched(self) -> None:
        fetched, self._fetched = self._fetched, []
        await self._keep(fetched, None)

    async def _keep(self, sections: Sequence[Section], own: dict[bytes, Cid] | None) -> int:
        """Write blocks; what is missing because of them belongs to the CAR of *own*, if any."""
        if self._is_fresh and len(sections) > 1:
            # The root first, and what it links to is looked up: what is whole already, below it,
            # is not read again only because a CAR brings it again.
            self._is_fresh = False
            useful = await self._keep(sections[:1], own)
            return useful + await self._keep(sections[1:], own)
        async with self._keeping:
            self._wantlist.check = self._checker()
            kept = await self._blocks.store_blocks(
                self._pin, self._wantlist, sections, looks_up=self._may_look_up
            )
            return self._note(kept, own)

    def _note(self, kept: WriteResult, own: dict[bytes, Cid] | None) -> int:
        """Take note of what a write has led to; how many bytes of it were of use."""
        if kept.blocks is not None and kept.size is not None:
            self._here = (kept.blocks, kept.size)
        places = (self._nodes, self._leaves, *self._of_cars)
        for multihash in kept.arrived:
            for place in places:
                place.pop(multihash, None)
        if own is None:
            self._want(kept.missing)
        else:
            own |= kept.missing
        self._tell()
        return kept.useful

    def _want(self, missing: Mapping[bytes, Cid]) -> None:
        for multihash, cid in missing.items():
            place = self._leaves if cid.codec in LEAVES else self._nodes
            place[multihash] = cid

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told > _PROGRESS_SECONDS:
            self._told = now
            self._progress(*self._here)
