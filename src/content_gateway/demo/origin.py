"""The demonstration's origin: a tiny trustless gateway and IPNS router on loopback.

Serves the blocks and the one record it is given, as `/ipfs/{cid}?format=raw` and
`/routing/v1/ipns/{name}`; nobody needs to trust it. Knows nothing of the service beside it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from content_gateway.api.server import listen, make_server
from content_gateway.content.cid import Cid
from content_gateway.content.ipns_name import IpnsName
from content_gateway.errors import InvalidCid
from content_gateway.ipfs import record_http
from content_gateway.ipfs.embedded import retrieval


def origin(blocks: Mapping[Cid, bytes], records: Mapping[IpnsName, bytes]) -> Starlette:
    """The ASGI application that serves *blocks* and *records*."""

    async def block(request: Request) -> Response:
        try:
            data = blocks.get(Cid.parse(request.path_params["cid"]))
        except InvalidCid:
            return Response(status_code=400)
        if data is None:
            return Response(status_code=404)
        return Response(data, media_type=retrieval.MEDIA_TYPE)

    async def record(request: Request) -> Response:
        wanted = request.path_params["name"]
        data = next((data for name, data in records.items() if name.text == wanted), None)
        if data is None:
            return Response(status_code=404)
        return Response(data, media_type=record_http.MEDIA_TYPE)

    return Starlette(routes=[Route("/ipfs/{cid}", block), Route("/routing/v1/ipns/{name}", record)])


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """*app* on a free loopback port; yields its base URL."""
    server = make_server(app)
    listener = listen("127.0.0.1", 0)
    server.owns_signals = False  # they are the service's, which runs in the same process
    task = asyncio.create_task(server.serve([listener]), name="demo origin")
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
