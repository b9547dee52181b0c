"""The service before a real node: what a cold name costs, and what an outage does.

A wildcard resolver on the local chain gives every name below one parent the same records, so each
request is for a name that nobody has asked for. The raw call is what the service itself sends, by
the client that also asks the service, so that only the service's own work makes the difference.
Needs the real servers (`make peers`)."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import aiohttp
import msgspec

from bench.load import KEY
from bench.servers import Started, service
from content_gateway.model.domain import DomainName
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names import ens
from content_gateway.names.more_records import address_call
from content_gateway.names.resolver_records import CONTENTHASH
from tests.world.ens import EnsWorld
from tests.world.ethereum import Anvil, running_anvil

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
PAIRS = 300
KNOWN = 200
FRESH = 1.0  # seconds, so that the answers of an outage are the last known ones


@dataclass(frozen=True)
class Stand:
    """A chain, a service before it, and one client of both."""

    anvil: Anvil
    service: Started
    session: aiohttp.ClientSession

    async def resolve(self, name: str) -> tuple[int, str, float]:
        """Status, Cache-Status and milliseconds of one resolve."""
        url = f"http://127.0.0.1:{self.service.port}/domain/resolve/{name}"
        begun = time.perf_counter()
        async with self.session.get(url, headers={"x-api-key": KEY.decode()}) as response:
            await response.read()
        took = 1e3 * (time.perf_counter() - begun)
        return response.status, response.headers.get("cache-status", ""), took

    async def call(self, name: str) -> float:
        """Milliseconds of the `eth_call` that resolves *name*, asked of the node itself."""
        parsed = DomainName.parse(name)
        node = parsed.namehash
        data = ens.encode_query(parsed, address_call(node, ETHEREUM), CONTENTHASH + node)
        call = {"to": EnsWorld.universal_resolver, "data": "0x" + data.hex()}
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest"]}
        )
        headers = {"Content-Type": "application/json"}
        begun = time.perf_counter()
        async with self.session.post(self.anvil.url, data=body, headers=headers) as response:
            answer = msgspec.json.decode(await response.read())
        took = 1e3 * (time.perf_counter() - begun)
        assert "result" in answer, answer
        return took


@asynccontextmanager
async def stand(folder: Path) -> AsyncIterator[Stand]:
    """A chain with `*.wild.eth` on it, and the service before it."""
    async with running_anvil(folder) as anvil:
        world = await EnsWorld.deploy(anvil)
        await world.set_resolver("wild.eth", await world.wildcard_resolver(WALLET))
        settings = {
            "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{anvil.url}"]',
            "CONTENT_GATEWAY_NAMES__FRESH": str(FRESH),
        }
        async with (
            service(folder / "data", settings) as started,
            aiohttp.ClientSession() as session,
        ):
            yield Stand(anvil, started, session)


async def cold(stand: Stand) -> tuple[float, float]:
    """Median milliseconds of a cold resolve, and of the raw call, asked in turn."""
    resolves, calls = [], []
    for number in range(PAIRS + 20):
        name = f"cold{number}.wild.eth"
        calls.append(await stand.call(name))
        status, _, took = await stand.resolve(name)
        assert status == 200, status
        resolves.append(took)
    return statistics.median(resolves[20:]), statistics.median(calls[20:])


@dataclass(frozen=True)
class Outage:
    """Median milliseconds of answers while the node is stopped, and seconds until it is well."""

    known: float
    unknown: float
    recovery_unknown: float
    recovery_known: float


async def outage(stand: Stand) -> Outage:
    """Stop the node under names that the service knows, and start it again."""
    known = [f"known{number}.wild.eth" for number in range(KNOWN)]
    for name in known:
        assert (await stand.resolve(name))[0] == 200
    fresh = count()
    await stand.anvil.stop()
    await asyncio.sleep(FRESH)
    for _ in range(10):  # until the breaker is open
        await stand.resolve(f"first{next(fresh)}.wild.eth")
    unknown_times, known_times = [], []
    for name in known:
        status, mark, took = await stand.resolve(name)
        assert status == 200, status
        assert "ttl=-" in mark, mark
        known_times.append(took)
        status, _, took = await stand.resolve(f"unknown{next(fresh)}.wild.eth")
        assert status == 503, status
        unknown_times.append(took)
    await stand.anvil.start()
    begun = time.perf_counter()
    while (await stand.resolve(f"back{next(fresh)}.wild.eth"))[0] != 200:
        await asyncio.sleep(0.02)
    unknown_again = time.perf_counter() - begun
    while (await stand.resolve(known[0]))[1]:
        await asyncio.sleep(0.02)
    return Outage(
        statistics.median(known_times),
        statistics.median(unknown_times),
        unknown_again,
        time.perf_counter() - begun,
    )
