"""Fairness over HTTP: another key's 99th percentile beside one key at full load, and alone.

One run for each way, one service, real seconds. The service, the load, the upstreams and the client
that is measured are four processes; the other asks one thing after the other, in short phases alone
and beside the load that take turns, so that whatever else the machine does meets both."""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import uvloop

from bench.flood import Connection
from bench.pins import LEDGER, NOBODY, fill
from bench.servers import Started, service
from bench.upstreams import publishers
from bench.ways import QUIET, WAYS, Request, request
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from tests.ipld.dags import Dag, file, in_order

PHASES: Final = 5
ASKED: Final = 80  # in each
PINS: Final = 50_000
STREAMS: Final = ("cars", "blocks")
_IN_A_FILE: Final[Mapping[str, str]] = MappingProxyType({})
_UNTIL_FULL: Final = 1.0
_POLL: Final = 0.002
_CLIENT: Final = "127.0.0.2"  # that has no key is told apart by its address


@dataclass(frozen=True)
class Tail:
    """What took the other how many ms, alone and beside the load: medians and 99th percentiles;
    and how many answers a second the load had."""

    way: str
    alone: float
    beside: float
    usual_alone: float
    usual_beside: float
    load: float

    @property
    def ratio(self) -> float:
        """How many times the 99th percentile alone it is beside the load."""
        return self.beside / self.alone


async def tails(folder: Path, ways: Sequence[str] = tuple(WAYS)) -> AsyncIterator[Tail]:
    """One for each of *ways*."""
    async with upstreams() as url:
        for way in ways:
            yield await measured(folder / way.replace(" ", "-"), way, url)


async def measured(folder: Path, way: str, url: str, place: Mapping[str, str] = _IN_A_FILE) -> Tail:
    """That of *way*, before the upstreams at *url*, on a ledger with many pins: a new file, or what
    the settings *place* lead to."""
    async with _ready(folder, way, url, place) as (ours, load, quiet):
        return await _tail(ours, way, load, quiet)


@asynccontextmanager
async def _ready(
    folder: Path, way: str, url: str, place: Mapping[str, str]
) -> AsyncIterator[tuple[Started, str, str]]:
    """A service for *way*, and the arguments of the two who ask."""
    more = {
        **place,
        "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{url}"]',
        "CONTENT_GATEWAY_ENS__TIMEOUT": "9",
        "CONTENT_GATEWAY_IPNS__ROUTERS": f'["{url}"]',
    }
    load = quiet = ""
    if not place:
        async with service(folder):
            pass  # it makes the tables
    if way in STREAMS:
        load, quiet = await _fill(folder, way)
        more["CONTENT_GATEWAY_EMBEDDED__SERVE"] = "true"
    else:
        more |= NOBODY
        if not place:
            await fill(folder / LEDGER, PINS)
    if way == "ipns":
        quiet = " ".join(f"/ipns/resolve/{one.name.text}" for one in publishers())
    async with service(folder, more) as ours:
        yield ours, load, quiet


async def _fill(folder: Path, way: str) -> tuple[str, str]:
    """Put content into the embedded store: what the load asks for, and what the other does."""
    large, small = file(20, 2**18, seed=1), file(4, 2**18, seed=2)
    async with Blockstore(folder / "blocks.sqlite") as blocks:
        for dag in (large, small):
            pin, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
            await blocks.store_blocks(
                pin, wantlist, [(cid.multihash, data) for cid, data in in_order(dag)]
            )
            await blocks.finish(pin)
    if way == "cars":
        return f"/ipfs/{large[0]}?format=car", f"/ipfs/{small[0]}?format=car"
    return _blocks(large), _blocks(small)


def _blocks(dag: Dag) -> str:
    return " ".join(f"/ipfs/{cid}?format=raw" for cid in dag[1] if cid != dag[0])


async def _tail(ours: Started, way: str, load: str, quiet: str) -> Tail:
    command = [sys.executable, "-m", "bench.flood", str(ours.port), way, load]
    pipe = asyncio.subprocess.PIPE
    flood = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert flood.stdin is not None
    assert flood.stdout is not None
    client = await Client.connect(ours.port, WAYS[way].quiet(ours.port, quiet))
    alone: list[float] = []
    beside: list[float] = []
    answers, seconds = 0, 0.0
    try:
        await client.seconds(20)  # connections and caches are warm
        for _ in range(PHASES):
            alone += await client.seconds(ASKED)
            flood.stdin.write(b"go\n")
            assert await flood.stdout.readline() == b"going\n"
            begun = time.perf_counter()
            await asyncio.sleep(_UNTIL_FULL)
            beside += await client.seconds(ASKED)
            flood.stdin.write(b"rest\n")
            answers += int(await flood.stdout.readline())
            seconds += time.perf_counter() - begun
            await asyncio.sleep(_UNTIL_FULL)  # what it had begun ends
    finally:
        client.close()
        flood.kill()
        await flood.wait()
    return Tail(
        way,
        alone=_percentile(alone, 99),
        beside=_percentile(beside, 99),
        usual_alone=_percentile(alone, 50),
        usual_beside=_percentile(beside, 50),
        load=answers / seconds,
    )


def _percentile(took: Sequence[float], part: int) -> float:
    """The milliseconds within which *part* per cent of the answers came."""
    return sorted(took)[len(took) * part // 100] * 1000


class Client:
    """The other: one connection, one thing after the other."""

    def __init__(self, port: int, asks: Request) -> None:
        self._port, self._asks = port, asks
        self._numbers = itertools.count()
        self._connection: Connection
        self._answered: asyncio.Future[int]

    @classmethod
    async def connect(cls, port: int, asks: Request) -> "Client":
        """A connected one, that asks what *asks* makes."""
        client = cls(port, asks)
        _, client._connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(lambda _, status: client._answered.set_result(status)),
            "127.0.0.1",
            port,
            local_addr=(_CLIENT, 0),
        )
        return client

    def close(self) -> None:
        """Hang up."""
        self._connection.transport.abort()

    async def seconds(self, asked: int) -> list[float]:
        """How long each of so many took; none is refused."""
        took = []
        for _ in range(asked):
            question = self._asks(next(self._numbers))
            begun = time.perf_counter()
            status, answer = await self._ask(question)
            assert status in (200, 404 if b"/domain/" in question else 200), (status, answer)
            if question.startswith(b"POST /ipns"):
                await self._until_resolved(question)
            took.append(time.perf_counter() - begun)
        return took

    async def _until_resolved(self, question: bytes) -> None:
        """Wait until the IPNS name in *question* is resolved, or was not."""
        name = question.split(b" ")[1].removeprefix(b"/ipns/resolve/").decode()
        path = f"/ipns/result/{int(time.time() * 1000):x}-{name}"
        poll = request("GET", path, self._port, QUIET)
        while b'"pending"' in (answer := (await self._ask(poll))[1]):
            await asyncio.sleep(_POLL)
        assert b'"resolved"' in answer, answer

    async def _ask(self, question: bytes) -> tuple[int, bytes]:
        self._answered = asyncio.get_running_loop().create_future()
        self._connection.transport.write(question)
        async with asyncio.timeout(60):
            return await self._answered, self._connection.answer


@asynccontextmanager
async def upstreams() -> AsyncIterator[str]:
    """The upstreams' process; its URL."""
    command = [sys.executable, "-m", "bench.upstreams"]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    try:
        yield (await child.stdout.readline()).decode().strip()
    finally:
        child.kill()
        await child.wait()


async def _main(ways: Sequence[str]) -> None:
    """Measure *ways*, all if there are none, and print; for `python -m bench.fairness`."""
    with tempfile.TemporaryDirectory() as folder:
        async for tail in tails(Path(folder), ways or tuple(WAYS)):
            print(shown(tail), flush=True)


def shown(tail: Tail) -> str:
    """The lines for a person."""
    return (
        f"{tail.way:<18}p99 of another key {tail.ratio:.1f} times that alone (goal 3.0)\n"
        f"                  {tail.beside:.1f} ms against {tail.alone:.1f} ms, medians"
        f" {tail.usual_beside:.1f} and {tail.usual_alone:.1f}, {tail.load:.0f} answers/s beside"
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as only:
        only.run(_main(sys.argv[1:]))
