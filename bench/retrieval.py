"""The embedded store against plain download: one DAG, one gateway, the same bytes.

The gateway is a process of its own on loopback: another embedded store that makes the CAR from
its blocks, or one that has it ready in memory, which no real gateway has. The plain download
reads the body and throws it away; the store verifies every block, writes it, and ends when the
pin is durable. The two take turns."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits, Wantlist
from content_gateway.concurrency.garbage_collection import collect_seldom
from content_gateway.ipld import car
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.ipld.dags import Dag, file, in_order

ROUNDS = 7
_PIECE = 256 * 1024


@dataclass(frozen=True)
class Speed:
    """Megabytes a second of both, and the median of the rounds' ratios."""

    ours: float
    plain: float
    ratio: float


async def retrieval(leaves: int, size: int, *, kind: str = "store", rounds: int = ROUNDS) -> Speed:
    """Pin a file of *leaves* blocks of *size* bytes, and download the same CAR.

    The gateway is another "store", or has the CAR in "memory"."""
    collect_seldom()  # as the service does
    ours, plain = [], []
    async with _gateway(kind, leaves, size) as (url, root):
        for number in range(rounds + 1):
            bare = await _download(url, root)
            pinned = await _pin(url, root)
            if number:  # the first round warms both up
                plain.append(bare)
                ours.append(pinned)
    ratios = [mine / theirs for mine, theirs in zip(ours, plain, strict=True)]
    return Speed(statistics.median(ours), statistics.median(plain), statistics.median(ratios))


async def _download(url: str, root: Cid) -> float:
    """Megabytes a second of reading the CAR and nothing else."""
    length = 0
    async with aiohttp.ClientSession() as session:
        begun = time.perf_counter()
        async with session.get(f"{url}/ipfs/{root}?format=car") as response:
            async for chunk in response.content.iter_any():
                length += len(chunk)
        return length / 1e6 / (time.perf_counter() - begun)


async def _pin(url: str, root: Cid) -> float:
    """Megabytes a second of a pin, from the request until it is durable."""
    with tempfile.TemporaryDirectory() as folder:
        async with HttpClient() as outbound, Blockstore(Path(folder) / "blocks.sqlite") as blocks:
            store = EmbeddedStore(blocks, TrustlessGateways(outbound, [url]))
            size = 0

            def progress(_: int, kept: int) -> None:
                nonlocal size
                size = kept

            begun = time.perf_counter()
            seen = await store.pin(root, BackendStatus(TrackerStatus.ABSENT), progress)
            took = time.perf_counter() - begun
            assert seen.status is TrackerStatus.PINNED, seen
            return size / 1e6 / took


@asynccontextmanager
async def _gateway(kind: str, leaves: int, size: int) -> AsyncIterator[tuple[str, Cid]]:
    """The gateway's process; its URL and the root it has."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.retrieval",
        kind,
        str(leaves),
        str(size),
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        url, root = (await child.stdout.readline()).decode().split()
        yield url, Cid.parse(root)
    finally:
        child.terminate()
        await child.wait()


async def _serve(kind: str, leaves: int, size: int) -> None:
    """Be the gateway, until killed."""
    dag = file(leaves, size)
    if kind == "store":
        with tempfile.TemporaryDirectory() as folder:
            async with HttpClient() as outbound, Blockstore(Path(folder) / "b.sqlite") as blocks:
                await _fill(blocks, dag)
                await _listen(dag[0], EmbeddedStore(blocks, TrustlessGateways(outbound, [])).car)
        return
    body = car.header(dag[0]) + b"".join(car.section(*block) for block in in_order(dag))
    pieces = [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)]

    async def ready(_: Cid) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    await _listen(dag[0], ready)


async def _fill(blocks: Blockstore, dag: Dag) -> None:
    """Pin *dag* without any gateway."""
    pin, wantlist = await blocks.begin(dag[0]), Wantlist(dag[0], DagLimits())
    await blocks.store_blocks(pin, wantlist, [(cid.multihash, data) for cid, data in in_order(dag)])
    await blocks.finish(pin)


async def _listen(root: Cid, pieces: Callable[[Cid], AsyncIterator[bytes]]) -> None:
    """Serve the CAR of *root* as it comes from *pieces*; say where on standard output."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": car.MEDIA_TYPE})
        await response.prepare(request)
        async for piece in pieces(root):
            await response.write(piece)
        return response

    runner = web.ServerRunner(web.Server(answer), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port} {root}", flush=True)
    await asyncio.Event().wait()


async def _main() -> None:
    """Measure, and print; for `python -m bench.retrieval`."""
    for kind in ("store", "memory"):
        for leaves, size in ((10_000, 10_000), (400, 256 * 1024)):
            speed = await retrieval(leaves, size, kind=kind)
            print(
                f"{leaves} blocks of {size} bytes from {kind}: {speed.ratio:.2f} of plain download "
                f"({speed.ours:.0f} against {speed.plain:.0f} MB/s)"
            )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as only:
        only.run(_serve(sys.argv[1], *map(int, sys.argv[2:])) if len(sys.argv) > 1 else _main())
