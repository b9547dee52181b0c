"""The demonstration's origin: a tiny trustless gateway and IPNS router on loopback.

Serves the blocks and the one record it is given, as `/ipfs/{cid}?format=raw` and
`/routing/v1/ipns/{name}`; nobody needs to trust it. Knows nothing of the service beside it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from content_gateway.backends.embedded import gateway
from content_gateway.errors import InvalidCid
from content_gateway.ipns.sources import http
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName


def origin(blocks: Mapping[Cid, bytes], records: Mapping[IpnsName, bytes]) -> web.Application:
    """The application that serves *blocks* and *records*."""

    async def block(request: web.Request) -> web.Response:
        if request.query.get("format") != "raw":
            return web.Response(status=406)
        try:
            data = blocks.get(Cid.parse(request.match_info["cid"]))
        except InvalidCid:
            return web.Response(status=400)
        if data is None:
            return web.Response(status=404)
        return web.Response(body=data, content_type=gateway.MEDIA_TYPE)

    async def record(request: web.Request) -> web.Response:
        wanted = request.match_info["name"]
        data = next((data for name, data in records.items() if name.text == wanted), None)
        if data is None:
            return web.Response(status=404)
        return web.Response(body=data, content_type=http.MEDIA_TYPE)

    application = web.Application()
    application.router.add_get("/ipfs/{cid}", block)
    application.router.add_get("/routing/v1/ipns/{name}", record)
    return application


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    """*application* on a free loopback port; yields its base URL."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
