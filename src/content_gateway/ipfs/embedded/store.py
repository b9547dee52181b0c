"""The embedded pin store, as a pin backend: walks a DAG until every block of it is kept.

Knows the order of work: a block is fetched, verified and written before its links are followed,
and the DAG is marked complete only when nothing is missing, so a crash costs the blocks under
way and no more. Replication is 1, and nothing is announced to the DHT."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from content_gateway.content.cid import Cid
from content_gateway.content.pins import Holding
from content_gateway.errors import PinFailed, UpstreamUnavailable
from content_gateway.ipfs.embedded.blockstore import Blockstore
from content_gateway.ipfs.embedded.dag import links

PARALLEL_BLOCKS: Final = 8

Fetch = Callable[[Cid], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest DAG that one pin may bring in."""

    blocks: int = 1_000_000
    size: int = 64 * 1024**3
    depth: int = 1_000


class EmbeddedStore:
    """Pins kept in a Blockstore, fetched by a Retrieval's `fetch`."""

    def __init__(self, blocks: Blockstore, fetch: Fetch, *, limits: Limits | None = None) -> None:
        self._blocks = blocks
        self._fetch = fetch
        self._limits = limits or Limits()

    async def look(self, cid: Cid) -> Holding:
        """Whether the whole DAG below *cid* is kept."""
        marked = await asyncio.to_thread(self._blocks.is_marked, cid)
        return Holding.PINNED if marked else Holding.ABSENT

    async def submit(self, cid: Cid) -> None:
        """Bring in the whole DAG below *cid*; what is kept already is not fetched again.

        Raises PinFailed when a block cannot be had or is over a limit, UpstreamUnavailable
        when no gateway can be asked or the disk refuses."""
        try:
            count, size = await self._walk(cid)
            await asyncio.to_thread(self._blocks.mark, cid, count, size)
        except ValueError as wrong:
            raise PinFailed(f"The content cannot be kept: {wrong}.") from wrong
        except OSError as full:
            raise UpstreamUnavailable(f"The block store cannot be written: {full}.") from full

    async def _walk(self, root: Cid) -> tuple[int, int]:
        """Number and bytes of the DAG's blocks, all of them kept."""
        waiting, seen = [(root, 0)], {root}
        size = 0
        running: dict[asyncio.Task[tuple[int, list[Cid]]], int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < PARALLEL_BLOCKS:
                    cid, depth = waiting.pop()
                    running[asyncio.create_task(self._keep(cid))] = depth
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    depth = running.pop(task)
                    length, linked = task.result()
                    size += length
                    new = [link for link in linked if link not in seen]
                    seen.update(new)
                    self._check(len(seen), size, depth)
                    waiting += [(link, depth + 1) for link in reversed(new)]
            return len(seen), size
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _keep(self, cid: Cid) -> tuple[int, list[Cid]]:
        """Length and distinct links of the block, which is durable before they are returned."""
        data = await asyncio.to_thread(self._blocks.get, cid)
        if data is None:
            data = await self._fetch(cid)
            await asyncio.to_thread(self._blocks.put, cid, data)
        # Two MiB of links take a second to read: not on the event loop.
        return len(data), await asyncio.to_thread(_distinct_links, cid, data)

    def _check(self, blocks: int, size: int, depth: int) -> None:
        limits = self._limits
        for what, value, most in (
            ("blocks", blocks, limits.blocks),
            ("bytes", size, limits.size),
            ("levels", depth, limits.depth),
        ):
            if value > most:
                raise ValueError(f"it has more than {most} {what}")


def _distinct_links(cid: Cid, data: bytes) -> list[Cid]:
    return list(dict.fromkeys(links(cid, data)))
