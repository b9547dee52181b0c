"""The two servers that are compared, each as a process of its own on loopback.

The service is `content-gateway dev`, unchanged; the bare one answers a constant of the same
size from an ASGI function, under the same server."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import aiohttp

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Started:
    """A running server; *first_answer* is the seconds from the process's start to an answer."""

    pid: int
    port: int
    first_answer: float

    def resident_megabytes(self) -> float:
        """Memory of the process now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE

    def waited(self) -> float:
        """Seconds so far that its main thread could have run and had no processor (schedstat)."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def children(self) -> "list[Started]":
        """The workers of a service that has several processes."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [Started(int(pid), self.port, self.first_answer) for pid in found]

    def keep_to(self, cores: set[int]) -> None:
        """Let all threads of the process share these *cores*."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


@contextmanager
def on_one_core(*servers: Started) -> Iterator[None]:
    """Let *servers* share one core, and this process use the others until the end."""
    cores = os.sched_getaffinity(0)
    first = min(cores)
    for server in servers:
        server.keep_to({first})
    os.sched_setaffinity(0, cores - {first} or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@asynccontextmanager
async def service(
    data: Path, more: Mapping[str, str] = MappingProxyType({}), *, python: str = sys.executable
) -> AsyncIterator[Started]:
    """`content-gateway dev` with its data in *data*, nobody public to ask, and *more* settings, by
    the *python* of this checkout or another's, without the settings that it does not have."""
    settings = {**_settings(data), **more}
    if python != sys.executable:
        settings = {name: settings[name] for name in settings if name in _variables(python)}
    async with _process([python, "-m", "content_gateway", "dev"], settings) as started:
        yield started


@cache
def _variables(python: str) -> frozenset[str]:
    """The names by which *python*'s checkout takes its settings from the environment."""
    command = [python, "-m", "content_gateway", "config", "show", "--json"]
    shown = subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout
    settings = (json.loads(line)["setting"] for line in shown.splitlines())
    return frozenset(f"CONTENT_GATEWAY_{name.upper().replace('.', '__')}" for name in settings)


@asynccontextmanager
async def serve(data: Path, more: Mapping[str, str]) -> AsyncIterator[Started]:
    """`content-gateway serve` likewise; it logs nothing, as nobody reads that."""
    quiet = {"CONTENT_GATEWAY_LOG__ACCESS": "off", "CONTENT_GATEWAY_LOG__LEVEL": "error"}
    command = [sys.executable, "-m", "content_gateway", "serve"]
    async with _process(
        command, {**_settings(data), **quiet, **more}, errors=subprocess.STDOUT
    ) as started:
        yield started


def _settings(data: Path) -> dict[str, str]:
    return {
        "CONTENT_GATEWAY_DATA_DIR": str(data),
        "CONTENT_GATEWAY_PORT": "0",
        "CONTENT_GATEWAY_ENS__RPC_URLS": "[]",
        "CONTENT_GATEWAY_BASENAMES__RPC_URLS": "[]",
        "CONTENT_GATEWAY_GNOSIS__RPC_URLS": "[]",
        "CONTENT_GATEWAY_IPNS__ROUTERS": "[]",
        "CONTENT_GATEWAY_IPNS__GATEWAYS": "[]",
        "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": "[]",
        "CONTENT_GATEWAY_CONTENT__GATEWAYS": "[]",
    }


@asynccontextmanager
async def bare() -> AsyncIterator[Started]:
    """An ASGI function that answers a constant."""
    async with _process([sys.executable, "-m", "bench.bare"], {}) as started:
        yield started


@asynccontextmanager
async def _process(
    command: list[str], settings: Mapping[str, str], *, errors: int = subprocess.DEVNULL
) -> AsyncIterator[Started]:
    start = time.perf_counter()
    child = subprocess.Popen(
        command,
        env=os.environ | settings | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    try:
        assert child.stdout is not None
        port = await asyncio.to_thread(_port, child)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/version") as response,
        ):
            assert response.status == 200
            await response.read()
        yield Started(child.pid, port, time.perf_counter() - start)
    finally:
        child.terminate()
        child.wait(20)


def _port(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None
    for line in child.stdout:
        if found := re.search(r"istening on http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("the server did not start")
