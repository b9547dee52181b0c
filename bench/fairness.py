"""Fairness over HTTP: another key's 99th percentile beside one key at full load, and alone.

One run, one service, real seconds. The other key asks one thing after the other; the first has 64
connections that never rest, from a process of its own, so that no client waits for the other.
Look-ups go to a node that does not answer the first key's names."""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from aiohttp import web

from bench.pins import LEDGER, NOBODY, fill
from bench.servers import Started, service
from content_gateway.content.cid import RAW, Cid
from content_gateway.content.multiformats import SHA2_256

HOG: Final = "bench"  # whose pins `fill` makes
QUIET: Final = "quiet"
CONNECTIONS: Final = 64
ASKED: Final = 100
PINS: Final = 50_000
_HANGING: Final = b"hang".hex().encode()  # as it stands in the data of a call


@dataclass(frozen=True)
class Tail:
    """The 99th percentile in ms, alone and beside the other."""

    way: str
    alone: float
    beside: float


async def tails(folder: Path) -> list[Tail]:
    """One for each way to load the service."""
    async with _node() as url:
        more = NOBODY | {
            "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{url}"]',
            "CONTENT_GATEWAY_ENS__TIMEOUT": "9",
        }
        async with service(folder, more):
            pass  # it makes the tables
        fill(folder / LEDGER, PINS)
        async with service(folder, more) as ours:
            return [
                await _tail(ours, "writes", _add),
                await _tail(ours, "searches", _list),
                await _tail(ours, "look-ups", _name("name")),
            ]


Request = Callable[[int], tuple[str, str]]


def _add(number: int) -> tuple[str, str]:
    return "POST", f"/ipfs/pin/add/{Cid(RAW, SHA2_256, os.urandom(32))}"


def _search(number: int) -> tuple[str, str]:
    return "GET", f"/psa/pins?name=nothing{number}&match=ipartial"


def _list(number: int) -> tuple[str, str]:
    return "GET", "/ipfs/pin/ls"


def _name(label: str) -> Request:
    unique = os.urandom(4).hex()
    return lambda number: ("GET", f"/domain/resolve/{label}{number}.{unique}.eth")


async def _tail(ours: Started, way: str, quiet: Request) -> Tail:
    numbers = itertools.count()
    async with _session(ours.port) as session:
        alone = await _percentile(session, quiet, numbers)
        command = [sys.executable, "-m", "bench.fairness", str(ours.port), way]
        flood = await asyncio.create_subprocess_exec(*command)
        try:
            await asyncio.sleep(3)  # until it is at full load
            assert flood.returncode is None, "the load has ended"
            return Tail(way, alone, await _percentile(session, quiet, numbers))
        finally:
            flood.kill()
            await flood.wait()


def _session(port: int) -> aiohttp.ClientSession:
    url = f"http://127.0.0.1:{port}"
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))


async def _percentile(
    session: aiohttp.ClientSession, request: Request, numbers: Iterator[int]
) -> float:
    """The milliseconds within which 99 of 100 answers came; none is a refusal of ours."""
    took = []
    for _ in range(ASKED):
        begun = time.perf_counter()
        status = await _ask(session, request, numbers, QUIET)
        took.append(time.perf_counter() - begun)
        assert status != 503, "refused"
    return sorted(took)[ASKED * 99 // 100] * 1000


async def _flood(session: aiohttp.ClientSession, request: Request, numbers: Iterator[int]) -> None:
    while True:
        if await _ask(session, request, numbers, HOG) == 503:
            await asyncio.sleep(0.1)


async def _ask(
    session: aiohttp.ClientSession, request: Request, numbers: Iterator[int], key: str
) -> int:
    method, path = request(next(numbers))
    headers = {"x-api-key": key, "Authorization": f"Bearer {key}"}
    async with session.request(method, path, headers=headers) as response:
        await response.read()
        return response.status


@asynccontextmanager
async def _node() -> AsyncIterator[str]:
    """An Ethereum node that knows no name, and does not answer where one has "hang" in it."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        if _HANGING in body:
            await asyncio.sleep(3_600)
        error = {"code": 3, "message": "execution reverted", "data": "0x77209fe8" + "0" * 64}
        call = msgspec.json.decode(body)
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], "error": error})

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _load(port: int, way: str) -> None:
    """The first key at full load, until the process is ended."""
    load, connections = _LOADS[way]
    numbers = itertools.count()
    async with _session(port) as session:
        await asyncio.gather(*(_flood(session, load, numbers) for _ in range(connections)))


_LOADS: Final[dict[str, tuple[Request, int]]] = {
    "writes": (_add, CONNECTIONS),
    "searches": (_search, CONNECTIONS),
    "look-ups": (_name("hang"), 1_000),
}

if __name__ == "__main__":
    asyncio.run(_load(int(sys.argv[1]), sys.argv[2]))
