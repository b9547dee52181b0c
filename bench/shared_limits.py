"""Limits shared through a store: what a request costs with it, and what goes beyond the limit.

The store is one of its own, on the cores that the services and the client have too, so that what
goes beyond is more than on machines of their own: it grows with how long each of them waits for a
core."""

import asyncio
import os
import re
import statistics
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from bench.servers import on_one_core, serve
from bench.workers import ZONE, costs
from tests.world.stores import Store, running_store

ROUNDS: Final = 21
_NEVER: Final = "100000000"
_OVER: Final = 0.5  # seconds since the last request that was let in


async def cost(folder: Path) -> float:
    """What one core serves of warm resolves with `limits.url` as a part of that without, by the CPU
    time of the service for each, the median of rounds in turns; both count a limit that is never
    reached."""
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_NAMES__ZONE_FILE": str(_zone(folder)),
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_MINUTE": _NEVER,
        "CONTENT_GATEWAY_ADMIN__PORT": "0",
    }
    ratios = []
    async with (
        running_store("valkey", folder / "store") as store,
        serve(folder / "alone", settings) as alone,
        serve(folder / "sharing", settings | {"CONTENT_GATEWAY_LIMITS__URL": store.url}) as sharing,
    ):
        with on_one_core(alone, sharing):
            for number in range(ROUNDS + 1):
                without, with_it = sum(await costs(alone)), sum(await costs(sharing))
                if number:  # the first round warms both up
                    ratios.append(without / with_it)
    return statistics.median(ratios)


def _zone(folder: Path) -> Path:
    """A zone file with the name that workers.py asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    zone = folder / "zone.toml"
    zone.write_text(ZONE)
    return zone


async def beyond(
    folder: Path,
    *,
    services: int = 2,
    workers: int = 1,
    limit: int = 1_000,
    connections: int = 32,
    rounds: int = 9,
) -> list[int]:
    """How many more than its limit so many *services* let in of a key that is used at all of them
    at full speed, over so many *connections* to each; a key of its own in each of *rounds*."""
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": str(limit),
        "CONTENT_GATEWAY_WORKERS": str(workers),
        "CONTENT_GATEWAY_ADMIN__PORT": "0",
    }
    found, ports = [], []
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(running_store("valkey", folder / "store"))
        more = {"CONTENT_GATEWAY_LIMITS__URL": store.url}
        for number in range(services):
            one = await stack.enter_async_context(serve(folder / f"{number}", settings | more))
            ports.append(one.port)
        _has_a_core(store)
        for number in range(rounds + 1):
            flood = _Flood(f"round{number}")
            await flood.run(ports, connections)
            if number:
                found.append(flood.let_in - limit)
    return found


def _has_a_core(store: Store) -> None:
    """Let it run whenever it can, as on a machine of its own.

    Else what is measured is for how long it waits for a core, and each service counts by itself.
    Only the superuser may."""
    with suppress(PermissionError):
        os.sched_setscheduler(store.pid, os.SCHED_RR, os.sched_param(1))


class _Flood:
    """Requests of *key* until none was let in for a while."""

    def __init__(self, key: str) -> None:
        self.request = f"GET /key HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {key}\r\n\r\n".encode()
        self.let_in = 0
        self.last = time.perf_counter()

    async def run(self, ports: list[int], connections: int) -> None:
        """To all *ports* at once."""
        loop = asyncio.get_running_loop()
        opened = []
        for port in ports * connections:
            transport, _ = await loop.create_connection(
                lambda: _Connection(self), "127.0.0.1", port
            )
            opened.append(transport)
        self.last = time.perf_counter()
        for transport in opened:
            transport.write(self.request)
        while time.perf_counter() < self.last + _OVER:
            await asyncio.sleep(0.1)
        for transport in opened:
            transport.abort()


class _Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, flood: _Flood) -> None:
        self._flood = flood
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not found or (length is not None and len(body) < int(length[1])):
            return
        if head.startswith(b"HTTP/1.1 200"):
            self._flood.let_in += 1
            self._flood.last = time.perf_counter()
        else:
            assert head.startswith(b"HTTP/1.1 429"), head
        self._buffer = b""
        self._transport.write(self._flood.request)
