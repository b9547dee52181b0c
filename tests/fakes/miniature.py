"""What every fake server has in common: a port, a memory of what was asked, and moods.

Knows HTTP and how servers fail (silence, garbage, floods, refusals). What a fake answers when
it is well is left to the module that is named after it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeVar

from aiohttp import web

Mood = Literal[
    "well",
    "dark",  # every connection is dropped without a word
    "hang",  # the request is taken and never answered
    "html",  # 200 and a web page, as captive portals and parking pages do
    "huge",  # 200 and 40 MB, no length announced
    "garbage",  # bytes that are not HTTP
    "cut",  # half of the announced body, then the connection ends
    "404",
    "429",
    "500",
    "503",
    "504",
    "redirect",  # 302 to a path that answers
    "empty",  # Ethereum only: `0x`, as an address without code
    "error",  # Ethereum only: a JSON-RPC error that is no revert
    "limited",  # Ethereum only: the JSON-RPC error for too many requests
    "revert",  # Ethereum only: a revert nobody knows
    "lie",  # Ethereum only: a well-formed JSON-RPC result that is not ABI
]
HUGE = 40_000_000
PAGE = b"<!doctype html><title>Welcome</title><p>Please accept our terms."

_Fake = TypeVar("_Fake", bound="Miniature")


class Miniature:
    """A server on loopback. `url` is its base; its mood holds until it is changed."""

    def __init__(self) -> None:
        self.url = ""
        self.delay = 0.0  # seconds before each answer
        self.requests: list[str] = []  # path and query of whatever was asked, the dark included
        self.bytes_flooded = 0  # of "huge" answers, as far as the client let us send
        self.mood: Mood = "well"
        self._ending = asyncio.Event()

    def misbehave(self, mood: Mood) -> None:
        """From now on answer every request in this way."""
        self.mood = mood

    def go_dark(self) -> None:
        """From now on drop every connection; what is asked is still counted."""
        self.mood = "dark"

    def come_back(self) -> None:
        """Be well again."""
        self.mood = "well"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer of a server that is well."""
        raise NotImplementedError

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, in the present mood."""
        self.requests.append(request.path_qs)
        self.heard(await request.read())
        await asyncio.sleep(self.delay)
        if self.mood == "well":
            return await self.answer(request)
        if self.mood == "hang":
            await self._ending.wait()
        if self.mood in ("dark", "hang", "garbage"):
            return self._drop(request, b"ICY 2000 garbage\r\n\r\n" * (self.mood == "garbage"))
        if self.mood == "html":
            return web.Response(body=PAGE, content_type="text/html")
        if self.mood in ("huge", "cut"):
            return await self._flood(request)
        if self.mood == "redirect":
            return web.Response(status=302, headers={"Location": "/elsewhere"})
        if self.mood.isdigit():
            return web.Response(status=int(self.mood), body=PAGE, content_type="text/html")
        return await self.answer(request)  # a mood of the fake's own

    def end(self) -> None:
        """End the requests that hang."""
        self._ending.set()

    def heard(self, body: bytes) -> None:
        """Told the body of every request, whatever the mood."""

    def _drop(self, request: web.BaseRequest, last_words: bytes) -> web.Response:
        if request.transport is not None:
            if last_words:
                request.transport.write(last_words)
                request.transport.close()
            else:
                request.transport.abort()
        return web.Response()

    async def _flood(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        if self.mood == "cut":
            response.content_length = 2 * len(PAGE)
        await response.prepare(request)
        if self.mood == "cut":
            await response.write(PAGE)
            return self._drop(request, b"")
        with suppress(ConnectionError):  # a client may well hang up
            while self.bytes_flooded < HUGE:
                await response.write(b"0" * 100_000)
                self.bytes_flooded += 100_000
        return response


@asynccontextmanager
async def running(fake: _Fake) -> AsyncIterator[_Fake]:
    """*fake*, listening on a free port of loopback."""
    server = web.Server(fake.serve, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.2, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.url = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        fake.end()
        await runner.cleanup()
