"""The bench of the embedded store for the suite of promises: its own file, a miniature gateway.

Knows what the store's garbage collection leaves. What is promised is left to promises.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import HttpClient
from tests.fakes.origin import Origin, running_origin
from tests.pins.promises import Bench

A_MOMENT = 0.02


class EmbeddedBench:
    """The store before a miniature gateway, which has what is provided."""

    def __init__(self, blocks: Blockstore, outbound: HttpClient, origin: Origin) -> None:
        self.backend = EmbeddedStore(blocks, TrustlessGateways(outbound, [origin.url], seconds=10))
        self.is_remote = False
        self.blocks = blocks
        self.origin = origin

    async def provide(self, cid: Cid, data: bytes) -> None:
        self.origin.blocks[cid] = data

    async def forget(self, cid: Cid) -> None:
        self.origin.blocks.pop(cid, None)

    async def go_dark(self) -> None:
        self.origin.go_dark()

    async def come_back(self) -> None:
        self.origin.come_back()

    async def record_outcomes(self) -> None:
        await asyncio.sleep(A_MOMENT)

    async def keeps(self, cid: Cid) -> bool:
        unpinning = "SELECT count(*) FROM pins WHERE unpinning"
        while (await self.blocks.read(lambda file: file.execute(unpinning).fetchone()))[0]:
            await asyncio.sleep(A_MOMENT)
        return await self.backend.block(cid) is not None


@asynccontextmanager
async def embedded_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """The store with nothing in it, in *tmp_path*."""
    async with (
        running_origin() as origin,
        HttpClient() as outbound,
        Blockstore(tmp_path / "blocks.sqlite") as blocks,
    ):
        yield EmbeddedBench(blocks, outbound, origin)
