"""How the miniature cluster is reached: over real HTTP, or straight, for tests of many steps.

Both ways fail as networks do: nobody there, silence, an answer that gets lost. Knows nothing of
pins."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web

from content_gateway.errors import UpstreamUnavailable
from content_gateway.net.http_client import Answer, Download, HttpClient

from .cluster import MiniCluster, MiniPeer
from .cluster_rest import MiniRest, Response
from .miniature import Miniature, running

NDJSON = "application/json"


class MiniServer(Miniature):
    """The HTTP server of one peer; `cut_after` so many lines of a stream the connection ends."""

    def __init__(self, rest: MiniRest, peer: MiniPeer) -> None:
        super().__init__()
        self.peer = peer
        self.cut_after: int | None = None
        self._rest = rest

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self.peer.answers:
            return self._drop(request, b"")
        reply = self._rest.handle(self.peer, request.method, request.path_qs, request.headers)
        if self.peer.loses_answers:
            return self._drop(request, b"")
        if not reply.is_stream:
            headers = {"Location": reply.location} if reply.location else None
            body = b"".join(reply.lines)
            return web.Response(
                status=reply.status, body=body, content_type=NDJSON, headers=headers
            )
        response = web.StreamResponse(status=reply.status, headers={"Content-Type": NDJSON})
        await response.prepare(request)
        for line in reply.lines[: self.cut_after]:
            await response.write(line)
        if self.cut_after is not None:
            return self._drop(request, b"")
        return response


@asynccontextmanager
async def running_servers(rest: MiniRest) -> AsyncIterator[list[MiniServer]]:
    """A server for each peer, and each peer knows its URL."""
    async with AsyncExitStack() as stack:
        servers = []
        for peer in rest.cluster.peers:
            server = await stack.enter_async_context(running(MiniServer(rest, peer)))
            peer.url = server.url
            servers.append(server)
        yield servers


class Wire(HttpClient):
    """An HTTP client that needs no HTTP: it hands requests to the peers of a miniature cluster.

    Each call gives way twice, before and after it was done, so that it can be cancelled on both
    sides; nothing else takes any time, so that no bound matters."""

    def __init__(self, cluster: MiniCluster) -> None:
        super().__init__()
        self.rest = MiniRest(cluster)
        self.urls = []
        for peer in cluster.peers:
            peer.url = f"http://{peer.name}.test"
            self.urls.append(peer.url)

    async def ask(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **bounds: Any
    ) -> Answer:
        """As HttpClient.ask."""
        reply = await self._reply(method, url, headers)
        return Answer(reply.status, NDJSON, b"".join(reply.lines))

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, **bounds: Any
    ) -> AsyncIterator[Download]:
        """As HttpClient.stream."""
        yield _Lines(await self._reply(method, url, headers))

    async def _reply(self, method: str, url: str, headers: Mapping[str, str] | None) -> Response:
        peer = next(peer for peer in self.rest.cluster.peers if url.startswith(peer.url))
        await asyncio.sleep(0)
        if not peer.answers:
            raise UpstreamUnavailable("The server cannot be reached.")
        reply = self.rest.handle(peer, method, url.removeprefix(peer.url), headers or {})
        await asyncio.sleep(0)
        if peer.loses_answers:
            raise UpstreamUnavailable("The server cannot be reached.")
        return reply


class _Lines(Download):
    """A reply, as a stream."""

    def __init__(self, reply: Response) -> None:
        self.status = reply.status
        self.content_type = NDJSON
        self._reply = reply

    async def chunks(self) -> AsyncIterator[bytes]:
        for line in self._reply.lines:
            yield line

    async def lines(self, max_bytes: int) -> AsyncIterator[bytes]:
        for line in self._reply.lines:
            yield line.rstrip(b"\n")
