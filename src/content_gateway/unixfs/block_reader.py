"""The blocks that content is read from: what this machine holds, and what gateways give.

Knows the order in which they are asked, that many who want one block cost one request, and the
bounds: so many blocks of others' gateways at once, shared fairly by requestor, each for so many
seconds, and so many bytes kept in memory. The denylist is asked about each block that is read,
however it came. Which blocks a path needs is left to reader.py."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import ContentUnavailable, UpstreamTimeout
from content_gateway.model.cid import Cid

Check = Callable[[Cid], None]
"""Raises Blocked for a block that is not served."""

# What is read of the disk at once, in turn by requestor: its threads take one after the other.
_READS: Final = 2
_WAITING_READS: Final = 1_000
_READ_SECONDS: Final = 60.0
# A block that takes more of the memory than this part of it would push out too much else.
_LARGEST_PART: Final = 8


class HeldBlocks(Protocol):
    """The blocks that are held on this machine."""

    async def block(self, cid: Cid) -> bytes | None:
        """The verified block, None if it is not held. Raises StorageUnavailable."""


class GivenBlocks(Protocol):
    """The blocks that other servers give."""

    async def block(self, cid: Cid) -> bytes:
        """The verified block. Raises ContentUnavailable when none of them has it,
        UpstreamTimeout when they are too slow or busy to say, and UpstreamUnavailable."""


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """*at_once* blocks are fetched at the same time for all, *waiting* more may wait, for
    *patience* seconds each. A block may take *seconds*. *kept* bytes of blocks stay in memory."""

    at_once: int = 64
    waiting: int = 4_096
    patience: float = 10.0
    seconds: float = 15.0
    kept: int = 32 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Fetch:
    """A block on its way, and how many wait for it."""

    task: asyncio.Task[bytes]
    permit: Permit
    waiting: int = 0


class BlockReader:
    """Blocks from *held*, and else from *given*; None: there is no such place."""

    def __init__(
        self,
        held: HeldBlocks | None,
        given: GivenBlocks | None,
        *,
        checker: Callable[[], Check | None] = lambda: None,
        policy: ReadPolicy | None = None,
    ) -> None:
        """*checker* gives what each block is asked about, by the list of the moment."""
        self._held = held
        self._given = given
        self._checker = checker
        self._policy = policy or ReadPolicy()
        self._fetching = FairSemaphore(
            self._policy.at_once,
            waiting=self._policy.waiting,
            patience=self._policy.patience,
            detail="Too many blocks of content are being fetched; ask again soon.",
        )
        self._reading = FairSemaphore(
            _READS,
            waiting=_WAITING_READS,
            patience=_READ_SECONDS,
            detail="Too many blocks of content are being read; ask again soon.",
        )
        self._fetches: dict[Cid, _Fetch] = {}
        self._kept: OrderedDict[Cid, bytes] = OrderedDict()
        self._kept_bytes = 0

    def check(self) -> Check:
        """What raises Blocked for a block, by the list as it is now; in any thread."""
        return self._checker() or allow

    async def block(self, cid: Cid, requestor: str) -> bytes:
        """The verified bytes of the block *cid*; what it costs is charged to *requestor*.

        Raises Blocked, ContentUnavailable, UpstreamTimeout, UpstreamUnavailable, Overloaded,
        StorageUnavailable."""
        self.check()(cid)
        if cid.hash_code == IDENTITY:
            return cid.digest
        kept = self._kept.get(cid)
        if kept is not None:
            self._kept.move_to_end(cid)
            return kept
        if self._held is not None:
            async with self._reading.request(requestor):
                data = await self._held.block(cid)
            if data is not None:
                self._keep(cid, data)
                return data
        return await self._fetched(cid, requestor)

    async def close(self) -> None:
        """End every fetch and wait until it has ended."""
        tasks = [fetch.task for fetch in self._fetches.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetched(self, cid: Cid, requestor: str) -> bytes:
        """The block from others, by the one fetch of it; who leaves last ends that."""
        if self._given is None:
            raise ContentUnavailable(f"The block {cid} is not held here, and nobody else is asked.")
        fetch = self._fetches.get(cid)
        if fetch is None:
            permit = self._fetching.request(requestor)
            task = asyncio.create_task(self._fetch(cid, permit, self._given), name=f"block {cid}")
            fetch = self._fetches[cid] = _Fetch(task, permit)
            task.add_done_callback(lambda _: self._ended(cid, fetch))
        else:
            fetch.permit.join(requestor)
        fetch.waiting += 1
        try:
            return await asyncio.shield(fetch.task)
        finally:
            fetch.waiting -= 1
            if not fetch.waiting and not fetch.task.done():
                if self._fetches.get(cid) is fetch:
                    del self._fetches[cid]  # whoever comes now begins another one
                fetch.task.cancel()

    async def _fetch(self, cid: Cid, permit: Permit, given: GivenBlocks) -> bytes:
        await permit.granted()
        try:
            async with asyncio.timeout(self._policy.seconds):
                data = await given.block(cid)
        except TimeoutError as late:
            raise UpstreamTimeout(f"The block {cid} did not come in time.") from late
        finally:
            permit.release()
        self._keep(cid, data)
        return data

    def _ended(self, cid: Cid, fetch: _Fetch) -> None:
        fetch.permit.release()  # of one that was cancelled before it began
        if self._fetches.get(cid) is fetch:
            del self._fetches[cid]
        if not fetch.task.cancelled():
            fetch.task.exception()  # seen, even if all who waited have left

    def _keep(self, cid: Cid, data: bytes) -> None:
        if len(data) > self._policy.kept // _LARGEST_PART or cid in self._kept:
            return
        self._kept[cid] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > self._policy.kept:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest)


def allow(cid: Cid) -> None:
    """The check where there is no list."""
