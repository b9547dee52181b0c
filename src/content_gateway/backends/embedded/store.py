"""The embedded pin store, as a pin backend: keeps whole DAGs on this machine, and serves them.

Knows the order of work: a pin is begun, what is missing is brought in, and it is marked complete,
durably, only when nothing lacks; so a crash costs what was under way and no more. Replication is 1,
and nothing is announced to the DHT. Blocks are left to the modules beside this one."""

import asyncio
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

import structlog

from content_gateway.backends.embedded.blockstore import Blockstore, PinRow
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.retrieval import Retrieval
from content_gateway.backends.embedded.serving import MAX_LINKS, read_block, read_car
from content_gateway.backends.embedded.verify import verify_some
from content_gateway.backends.embedded.wantlist import (
    MAX_KNOWN,
    Check,
    DagLimits,
    Wantlist,
    WantRoom,
)
from content_gateway.errors import Blocked, PinDeferred, PinFailed
from content_gateway.ipld.block import refusal
from content_gateway.ipld.car import Section
from content_gateway.ipld.selection import WHOLE, Selection
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Listed, Peer, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import HttpClient

log = structlog.get_logger(__name__)

Checker = Callable[[], Check | None]
Sections = Sequence[Section]

PARALLEL_BLOCKS: Final = 16
_MOST_ORIGINS: Final = 4
_MOST_READINGS: Final = 64  # of a file whose blocks are in no order
_PARTS_AT_ONCE: Final = 4  # of all CARs that come in: some 8 MiB each
_PINS_AT_ONCE: Final = 1_000
_PINNED: Final = BackendStatus(TrackerStatus.PINNED, 1, 1, (Peer("embedded", "pinned"),))
_ABSENT: Final = BackendStatus(TrackerStatus.ABSENT, 0, 1, (Peer("embedded", "unpinned"),))


class EmbeddedStore:
    """Pins in *blocks*, fetched from *gateways*, and from origins by the guarded *to_origins*."""

    def __init__(
        self,
        blocks: Blockstore,
        gateways: TrustlessGateways,
        *,
        limits: DagLimits | None = None,
        parallel: int = PARALLEL_BLOCKS,
        checker: Checker = lambda: None,
        to_origins: HttpClient | None = None,
    ) -> None:
        """*checker* gives what each block is asked about, by the list of the moment."""
        self._checker = checker
        self._blocks = blocks
        self._gateways = gateways
        self._limits = limits or DagLimits()
        self._parallel = parallel
        # WantRoom for the largest pin and a little more.
        self._room = WantRoom(max(MAX_KNOWN, self._limits.blocks * 6 // 5))
        self._to_origins = to_origins
        self._parts = asyncio.Semaphore(_PARTS_AT_ONCE)

    @property
    def batch_age(self) -> float:
        """0: what is accepted is durable, and seen at once."""
        return 0.0

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        """PINNED where the whole DAG is here, else ABSENT. Raises StorageUnavailable."""
        complete = await self._blocks.complete(cids)
        return {cid: _PINNED if cid in complete else _ABSENT for cid in cids}

    async def addresses(self) -> Sequence[str]:
        """None: nothing that is held here is offered to nodes."""
        return ()

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        """Bring in the whole DAG below *cid*, without the blocks that are here, from the gateways
        and those of *origins* that are HTTP gateways.

        Calls *progress* with blocks and bytes a few times a second. Raises PinFailed when a block
        cannot be had or stored or a limit is passed, PinDeferred when the gateways are too slow or
        busy, UpstreamUnavailable when none can be reached, StorageUnavailable, Overloaded when too
        much waits for it. May be cancelled, and taken up again."""
        reason = refusal(cid)
        if reason is not None:
            raise PinFailed(f"The content cannot be kept: {reason}.")
        try:
            pin = await self._blocks.begin(cid)
            if not pin.is_complete:
                await self._bring_in(cid, pin, progress, self._sources(origins))
        except BaseException as failed:
            _drop_locals(failed)
            if not isinstance(failed, ValueError):
                raise
            raise PinFailed(f"The content cannot be kept: {failed}.") from failed
        return _PINNED

    async def take(self, cid: Cid, sections: Callable[[], AsyncIterator[Sections]]) -> None:
        """Pin *cid* with blocks from a file: *sections* reads all of it, verified, each time.

        It is read again while that brings more of the DAG, as where blocks stand before those that
        link to them. Raises PinFailed when the file lacks a block or the DAG cannot be kept, and
        then nothing of it stays, but what others brought in; StorageUnavailable."""
        reason = refusal(cid)
        if reason is not None:
            raise PinFailed(f"The content cannot be kept: {reason}.")
        pin = await self._blocks.begin(cid)
        if pin.is_complete:
            return
        try:
            with Wantlist(cid, self._limits, self._room, self._checker()) as wantlist:
                await self._take_all(pin, wantlist, sections)
                missing = wantlist.first_wanted()
                if missing is not None:
                    raise PinFailed(f"The block {missing} is part of it, and is not there.")
                await self._blocks.finish(pin)
        except (ValueError, Blocked, PinFailed) as failed:
            if not pin.blocks:  # nobody else had begun to bring it in
                await self._blocks.abandon(pin)
            if isinstance(failed, PinFailed):
                raise
            raise PinFailed(f"The content cannot be kept: {failed}.") from failed

    async def _take_all(
        self, pin: PinRow, wantlist: Wantlist, sections: Callable[[], AsyncIterator[Sections]]
    ) -> None:
        """Store what *wantlist* wants of *sections*, until they bring nothing more."""
        for _ in range(_MOST_READINGS):
            useful = 0
            while wantlist.has_unread:
                useful += len((await self._blocks.store_blocks(pin, wantlist, ())).arrived)
            if wantlist.is_complete:
                return
            async for some in sections():
                result = await self._blocks.store_blocks(pin, wantlist, some)
                useful += len(result.arrived)
            if not useful:
                return

    async def _bring_in(
        self,
        cid: Cid,
        pin: PinRow,
        progress: Callable[[int, int], None],
        sources: TrustlessGateways,
    ) -> None:
        try:
            with Wantlist(cid, self._limits, self._room, self._checker()) as wantlist:
                await Retrieval(
                    self._blocks,
                    sources,
                    pin,
                    wantlist,
                    parallel=self._parallel,
                    progress=progress,
                    checker=self._checker,
                    parts=self._parts,
                ).run()
                if not wantlist.is_complete:  # no promise rests on the retrieval being right
                    raise PinDeferred("Not all of it came in; it is tried again.")
                await self._blocks.finish(pin)
        except Blocked as blocked:
            # What has come of it so far goes, as does that of any pin that nobody holds.
            await self._blocks.unpin(cid)
            raise PinFailed(f"The content cannot be kept: {blocked.detail}") from blocked

    def _sources(self, origins: Sequence[Multiaddr]) -> TrustlessGateways:
        """The gateways to ask for one content."""
        urls = [origin.gateway_url for origin in origins]
        asked = list(dict.fromkeys(url for url in urls if url is not None))[:_MOST_ORIGINS]
        if not asked or self._to_origins is None:
            return self._gateways
        return self._gateways.joined_by(self._to_origins, asked)

    async def unpin(self, cid: Cid) -> None:
        """Unpin *cid*, durably; blocks that no other pin needs are deleted in the background."""
        await self._blocks.unpin(cid)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        """Every complete pin. Some of their blocks are verified again first: a pin that has lost
        one is not complete. Raises StorageUnavailable."""
        if lost := await verify_some(self._blocks):
            log.warning("blocks were lost, and their pins are fetched again", blocks=lost)
        last = 0
        while pins := await self._blocks.pins_after(last, _PINS_AT_ONCE):
            for last, cid in pins:  # noqa: B007 - where the next page begins
                yield Listed(cid)

    async def block(self, cid: Cid) -> bytes | None:
        """The block *cid*, verified again; None if it is not here, or is corrupt: then it is
        dropped, and its pins are retrieved again. Raises StorageUnavailable."""
        return await read_block(self._blocks, cid)

    def car(self, cid: Cid, selection: Selection = WHOLE) -> AsyncGenerator[bytes, None]:
        """The CAR (version 1, depth first) of the *selection* at *cid*, piece by piece.

        Raises NotFound for a missing block and Blocked, before the first piece if it is the first
        block."""
        most = max(MAX_LINKS, self._limits.blocks)
        return read_car(self._blocks, cid, selection, most, self._checker)


def _drop_locals(failed: BaseException) -> None:
    """Clear the frames that *failed* has passed, and those of the errors it was raised from.

    A task and its error hold each other, and the frames megabytes of blocks, until a collection."""
    ahead, seen = [failed], set[int]()
    while ahead:
        error = ahead.pop()
        if id(error) not in seen:
            seen.add(id(error))
            traceback.clear_frames(error.__traceback__)
            ahead += [each for each in (error.__cause__, error.__context__) if each is not None]
