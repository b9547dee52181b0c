"""Names and pins have connections of their own: neither waits for the other's."""

import asyncio
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from content_gateway.wiring.pins import CONNECTIONS
from tests.cli.command import cids
from tests.fakes.ethereum import Ethereum, Name
from tests.http.restarts import WALLET
from tests.service import running_service
from tests.waiting import until


class OneHost:
    """One machine of an operator's: a node behind /rpc, and a gateway that never answers."""

    def __init__(self, ethereum: Ethereum) -> None:
        self._ethereum = ethereum
        self._over = asyncio.Event()
        self.hanging = 0
        app = web.Application()
        app.router.add_post("/rpc", self._rpc)
        app.router.add_get("/{rest:.*}", self._hang)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _rpc(self, request: web.Request) -> web.Response:
        async with aiohttp.ClientSession() as session:
            answer = await session.post(self._ethereum.url, data=await request.read())
            return web.Response(body=await answer.read(), content_type="application/json")

    async def _hang(self, _: web.Request) -> web.Response:
        self.hanging += 1
        await self._over.wait()
        return web.Response(status=503)

    async def close(self) -> None:
        """Let go of what hangs."""
        self._over.set()
        await self.server.close()


async def test_names_never_wait_for_pins(tmp_path: Path, ethereum: Ethereum) -> None:
    """With every connection for pins taken up by a gateway that hangs, names are answered."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    host = OneHost(ethereum)
    await host.server.start_server()
    try:
        async with running_service(
            tmp_path,
            ens__rpc_urls=[host.url + "/rpc"],
            embedded__gateways=[host.url],
            embedded__parallel=64,
        ) as service:
            for cid in cids(CONNECTIONS.per_server):
                await service.pin(cid)
            await until(lambda: host.hanging >= CONNECTIONS.per_server, seconds=60)
            answer = await service.resolve("site.eth")
            assert answer.json["walletAddress"]["addr"] == WALLET
    finally:
        await host.close()
