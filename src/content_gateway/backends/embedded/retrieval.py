"""The retrieval: fetches what is missing of a DAG, from several gateways side by side.

Theory of operation. A missing block is either a node, which has links, or a leaf. A node is fetched
as a CAR of everything below it: one request, verified block by block while it arrives. Links that
the CAR reveals are expected from it until it ends. What it has not brought by then is missing
again: its nodes are fetched by more CARs, its leaves as raw blocks, spread over the gateways. So a
retrieval that was interrupted anywhere continues there: stored blocks are found by look-up, and
only what is missing below them is fetched.

A gateway whose CAR brings nothing is not asked for CARs again by this pin. One that serves wrong
bytes is reported, and not asked for that block again. The first block that no gateway has ends the
retrieval. Storing is left to blockstore.py, what is linked to wantlist.py."""

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
    """Fetches one pin: *parallel* raw blocks at a time. All retrievals share the *parts*, the
    number of parts of CARs that are verified and stored at a time."""

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
        self._reported_at = 0.0
        self._scores = PeerScore()
        self._without_cars: set[TrustlessGateway] = set()
        self._nodes: dict[bytes, Cid] = {}
        self._leaves: dict[bytes, Cid] = {}
        self._expected: list[dict[bytes, Cid]] = []  # by CAR under way: what it may still bring
        self._fetched: list[Section] = []
        self._cars: set[asyncio.Task[None]] = set()
        self._raws: set[asyncio.Task[None]] = set()
        self._flush: asyncio.Task[None] | None = None
        self._storing = asyncio.Lock()
        self._is_first = True
        self._stored = (pin.blocks, pin.size)

    async def run(self) -> None:
        """Fetch everything; when this returns the wantlist is complete.

        Raises ValueError as the wantlist does, and what TrustlessGateways.block and
        Blockstore.store_blocks raise. Blocks that arrived before that are stored."""
        while self._wantlist.has_unread and self._looks_up:
            await self._store([], None)
        try:
            while self._start():
                jobs = self._cars | self._raws | ({self._flush} if self._flush else set())
                done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
                self._remove(done)
                failures = [failure for job in done if (failure := job.exception())]
                if failures:
                    raise failures[0]
        except UpstreamError:
            await self._stop()
            await self._write_fetched()
            raise
        finally:
            await self._stop()
        self._progress(*self._stored)

    def _start(self) -> bool:
        """Begin what can be done now. Returns whether anything is under way."""
        while self._nodes and len(self._cars) < MAX_CARS:
            gateway = self._next_for_cars()
            if gateway is None:
                self._leaves |= self._nodes  # no gateway serves CARs: fetch raw blocks
                self._nodes.clear()
                break
            multihash, cid = self._nodes.popitem()
            self._cars.add(asyncio.create_task(self._car(gateway, multihash, cid)))
        while self._leaves and self._has_room():
            _, cid = self._leaves.popitem()
            self._raws.add(asyncio.create_task(self._raw(cid)))
        if self._fetched and self._flush is None:
            self._flush = asyncio.create_task(self._write_fetched())
        # Nothing is known to be missing any more: look up the links that were put off.
        if not (self._cars or self._raws or self._flush) and self._wantlist.has_unread:
            self._flush = asyncio.create_task(self._write_fetched())
        return bool(self._cars or self._raws or self._flush)

    @property
    def _looks_up(self) -> bool:
        """Whether more links are looked up: not while many are known to be missing. Each of them
        takes memory, and a block may link to a million that nobody has."""
        known = len(self._nodes) + len(self._leaves) + sum(map(len, self._expected))
        return known < MAX_MISSING

    def _has_room(self) -> bool:
        """Whether another raw block may be fetched: not while many wait to be written."""
        running = len(self._raws)
        return running < self._parallel and running + len(self._fetched) < 2 * self._parallel

    def _next_for_cars(self) -> TrustlessGateway | None:
        """The gateway to ask for the next CAR; None if none serves them."""
        able = [each for each in self._gateways.take_turns() if each not in self._without_cars]
        return min(able, key=self._scores.rank, default=None)

    def _remove(self, done: set[asyncio.Task[None]]) -> None:
        self._cars -= done
        self._raws -= done
        if self._flush in done:
            self._flush = None

    async def _stop(self) -> None:
        """Cancel all jobs; a write that has begun in its thread is completed there."""
        jobs = [*self._cars, *self._raws, *([self._flush] if self._flush else [])]
        self._remove(set(jobs))
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _car(self, gateway: TrustlessGateway, multihash: bytes, cid: Cid) -> None:
        """Store as much as *gateway*'s CAR of *cid* has."""
        own = {multihash: cid}
        self._expected.append(own)

        async def store(sections: Sequence[Section]) -> int:
            return await self._store(sections, own)

        try:
            ended = await receive(gateway, cid, store, self._parts)
        finally:
            self._expected.remove(own)
        if ended.wrong is not None:
            self._gateways.note_wrong(gateway, ended.wrong)
        if ended.fault is not None:
            log.info("a CAR broke off", gateway=gateway.name, cid=str(cid), reason=ended.fault)
        # A gateway that limits our rate (429) is not judged, unless it lets nothing pass at all.
        if not ended.is_busy or gateway.pace.takes_nothing:
            if ended.wrong is not None or not ended.useful:
                self._without_cars.add(gateway)
            self._scores.note(gateway, gave=ended.useful > 0)
        self._add_missing(own)

    async def _raw(self, cid: Cid) -> None:
        data = await self._gateways.block(cid, self._scores)
        self._fetched.append((cid.multihash, data))

    async def _write_fetched(self) -> None:
        fetched, self._fetched = self._fetched, []
        await self._store(fetched, None)

    async def _store(self, sections: Sequence[Section], own: dict[bytes, Cid] | None) -> int:
        """Store blocks. Their links that are missing are expected from the CAR of *own*, if any.

        Returns how many of their bytes belong to the DAG."""
        if self._is_first and len(sections) > 1:
            # The root alone, so that its links are looked up: what is complete below it already is
            # not read again only because the CAR brings it again.
            self._is_first = False
            useful = await self._store(sections[:1], own)
            return useful + await self._store(sections[1:], own)
        async with self._storing:
            self._wantlist.check = self._checker()  # the denylist may have changed
            result = await self._blocks.store_blocks(
                self._pin, self._wantlist, sections, looks_up=self._looks_up
            )
            return self._record(result, own)

    def _record(self, result: WriteResult, own: dict[bytes, Cid] | None) -> int:
        """Record the outcome of a write; how many of its bytes belong to the DAG."""
        if result.blocks is not None and result.size is not None:
            self._stored = (result.blocks, result.size)
        missing_in = (self._nodes, self._leaves, *self._expected)
        for multihash in result.arrived:
            for blocks in missing_in:
                blocks.pop(multihash, None)
        if own is None:
            self._add_missing(result.missing)
        else:
            own |= result.missing
        self._report()
        return result.useful

    def _add_missing(self, missing: Mapping[bytes, Cid]) -> None:
        for multihash, cid in missing.items():
            blocks = self._leaves if cid.codec in LEAVES else self._nodes
            blocks[multihash] = cid

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported_at > _PROGRESS_SECONDS:
            self._reported_at = now
            self._progress(*self._stored)
