"""Benches of the Kubo backend for the suite of promises: on a miniature, and on a real daemon.

Knows how a block comes to be findable for either, how it is forgotten, and what a garbage
collection would leave. What is promised is left to promises.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.model.cid import CODECS, Cid
from content_gateway.net.http_client import HttpClient
from tests.fakes import kubo as fakes
from tests.pins.promises import Bench
from tests.world import kubo as world
from tests.world.peers import ask

SECONDS = 10.0
A_MOMENT = 0.05


class KuboBench:
    """The backend before a miniature node; blocks are found in the miniature's network."""

    def __init__(self, outbound: HttpClient, kubo: fakes.Kubo) -> None:
        self.backend = Kubo(outbound, kubo.url, seconds=SECONDS)
        self.is_remote = True
        self.kubo = kubo

    async def provide(self, cid: Cid, data: bytes) -> None:
        self.kubo.findable[cid] = data

    async def forget(self, cid: Cid) -> None:
        self.kubo.findable.pop(cid, None)
        self.kubo.collect_garbage()

    async def go_dark(self) -> None:
        self.kubo.go_dark()

    async def come_back(self) -> None:
        self.kubo.come_back()

    async def record_outcomes(self) -> None:
        self.kubo.collect_garbage()
        await asyncio.sleep(0)

    async def keeps(self, cid: Cid) -> bool:
        return cid in self.kubo.kept()


class RealKuboBench:
    """The backend before a daemon without a network: to be findable is to be in its repository,
    unpinned."""

    def __init__(self, outbound: HttpClient, kubo: world.Kubo) -> None:
        self.backend = Kubo(outbound, kubo.url, seconds=SECONDS)
        self.is_remote = True
        self.kubo = kubo
        self._forgotten: set[Cid] = set()

    async def provide(self, cid: Cid, data: bytes) -> None:
        self._forgotten.discard(cid)
        assert Cid.parse(await self.kubo.add_block(data, CODECS[cid.codec])) == cid

    async def forget(self, cid: Cid) -> None:
        self._forgotten.add(cid)
        await self._drop_forgotten()

    async def go_dark(self) -> None:
        await self.kubo.stop()

    async def come_back(self) -> None:
        await self.kubo.start()

    async def record_outcomes(self) -> None:
        await self._drop_forgotten()
        await asyncio.sleep(A_MOMENT)

    async def keeps(self, cid: Cid) -> bool:
        """Whether the block is there, and under any pin: those a collection leaves alone."""
        url = f"{self.kubo.url}/api/v0/pin/ls?type=all&arg={cid}"
        status, text = await ask("POST", url)
        assert status == 200 or "is not pinned" in text, text
        return status == 200 and await self.kubo.has_block(str(cid))

    async def _drop_forgotten(self) -> None:
        """As a collection would, for some blocks: what is pinned stays."""
        for cid in self._forgotten:
            with suppress(world.KuboError):  # it is pinned
                await self.kubo.remove_block(str(cid))


@asynccontextmanager
async def kubo_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """The backend before a miniature node that holds nothing."""
    async with fakes.running_kubo() as kubo, HttpClient() as outbound:
        yield KuboBench(outbound, kubo)


@asynccontextmanager
async def real_kubo_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """The backend before a real daemon; its repository is in *tmp_path*."""
    async with world.running_kubo(tmp_path / "kubo") as kubo, HttpClient() as outbound:
        yield RealKuboBench(outbound, kubo)
