"""More than the service can carry: connections that never finish a request, and too many requests.

Everything else is refused or closed; what is measured is what is left for those who behave, and how
fast the others hear that they are refused."""

import asyncio
import itertools
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from types import MappingProxyType

from bench.load import Load
from bench.servers import Started, bare, service

HALF_OPEN = 10_000
ADDRESSES = 5  # of this machine, as one may have 2,000 connections
PATH = "/domain/resolve/site.demo"
PEAK, OVERLOAD = 64, 192  # connections
KEYS = 3
# Far below what is allowed, so that three times the load is too much.
FEW = {"CONTENT_GATEWAY_CAPACITY__WAITING": "64"}
_NONE: Mapping[str, str] = MappingProxyType({})
_ROUNDS = 5
_SECONDS = 2.0
_SETTLE = 1.5  # more than a refused client waits


@dataclass(frozen=True)
class HalfOpen:
    """The 99th percentile of good answers, in milliseconds, and how many connections were open."""

    open: int
    alone: float
    beside: float


@dataclass(frozen=True)
class Overload:
    """Medians of rounds: answers a second at the *peak*, the *part* of them that is served at three
    times its connections, refusals a second, and the 99th percentile of the milliseconds that one
    took. *bare* is that of a server that does nothing, asked beside by the same process. Seconds in
    which others had the processor that the service wanted do not count."""

    peak: float
    part: float
    refused: float
    refusal: float
    bare: float


@dataclass(frozen=True)
class _Offered:
    """Good answers a second, the seconds of each refusal, and *bare* as in Overload."""

    rate: float
    refusals: list[float]
    bare: float

    @property
    def refusal(self) -> float:
        """The 99th percentile of the refusals, in milliseconds; 0 without any."""
        last = len(self.refusals) * 99 // 100
        return sorted(self.refusals)[last] * 1000 if self.refusals else 0.0


class _Client(asyncio.Protocol):
    """Asks again as soon as it is answered, and after a refusal when it is told to."""

    transport: asyncio.Transport

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._sent_at = 0.0
        self.good = 0
        self.refusals: list[tuple[float, float]] = []  # when it was asked, and seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 200"):
            self.good += 1
            self._ask()
            return
        assert data.startswith(b"HTTP/1.1 503"), data
        self.refusals.append((self._sent_at, time.perf_counter() - self._sent_at))
        asyncio.get_running_loop().call_later(1.0, self._ask)  # Retry-After

    def _ask(self) -> None:
        if not self.transport.is_closing():
            self._sent_at = time.perf_counter()
            self.transport.write(self._request)


async def half_open(folder: Path) -> HalfOpen:
    """Beside ten thousand connections that sent half a head."""
    with many_files():
        async with service(folder / "half") as ours:
            requests = itertools.repeat(_request(ours.port, 0))
            alone = (await Load(ours.port, requests, 8).run(_SECONDS)).percentile(99)
            opening = (_half(ours.port, number) for number in range(HALF_OPEN))
            writers = [await each for each in opening]
            beside = (await Load(ours.port, requests, 8).run(_SECONDS)).percentile(99)
            still = sum(not writer.is_closing() for writer in writers)
            for writer in writers:
                writer.transport.abort()
    return HalfOpen(still, alone, beside)


async def three_times(folder: Path, more: Mapping[str, str] = _NONE) -> Overload:
    """Three keys with so many connections that not all of their requests may wait; *more* are
    settings. Peak and overload take turns, so that both have the same share of the machine."""
    rounds: list[tuple[_Offered, _Offered]] = []
    async with (
        bare() as plain,
        service(folder / "peak", more) as usual,
        service(folder / "over", {**more, **FEW}) as few,
    ):
        for _ in range(_ROUNDS):
            peak = await _offered(usual, PEAK, plain.port)
            rounds.append((peak, await _offered(few, OVERLOAD, plain.port)))
    return Overload(
        peak=median(peak.rate for peak, _ in rounds),
        part=median(over.rate / peak.rate for peak, over in rounds),
        refused=median(len(over.refusals) / _SECONDS for _, over in rounds),
        refusal=median(over.refusal for _, over in rounds),
        bare=median(over.bare for _, over in rounds),
    )


async def _offered(ours: Started, clients: int, plain: int) -> _Offered:
    """What so many *clients* of *ours* get; *plain* is the port of the bare server."""
    loop = asyncio.get_running_loop()
    opened: list[_Client] = []
    for number in range(clients):
        made = await loop.create_connection(
            partial(_Client, _request(ours.port, number % KEYS)), "127.0.0.1", ours.port
        )
        opened.append(made[1])
    await asyncio.sleep(_SETTLE)  # what was asked while this process was connecting has its answer
    before, begun = sum(client.good for client in opened), time.perf_counter()
    waited = ours.waited()
    beside = await Load(plain, itertools.repeat(_request(plain, 0)), 1).run(_SECONDS)
    seconds = time.perf_counter() - begun - (ours.waited() - waited)
    rate = (sum(client.good for client in opened) - before) / seconds
    for client in opened:
        client.transport.abort()
    refusals = [took for client in opened for asked, took in client.refusals if asked >= begun]
    return _Offered(rate, refusals, beside.percentile(99))


async def _half(port: int, number: int) -> asyncio.StreamWriter:
    local = (f"127.0.0.{2 + number % ADDRESSES}", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    writer.write(b"GET / HTTP/1.1\r\nHo")
    return writer


def _request(port: int, number: int) -> bytes:
    head = f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-api-key: bench{number}\r\n\r\n"
    return head.encode()


@contextmanager
def many_files() -> Iterator[None]:
    """As many descriptors for this process as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
