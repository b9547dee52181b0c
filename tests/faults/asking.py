"""Those who ask a service in a fault's scene: many at once, each answer counted.

Every address of 127.0.0.0/8 is another client to the service; a request that broke off has status
0. What should come of it is left to the rows."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
from yarl import URL

CHUNK: Final = 65_536


@dataclass(frozen=True)
class Answered:
    """*status* 0: it broke off. *seconds* from the request to the end of the answer."""

    status: int
    body: bytes
    seconds: float
    headers: dict[str, str]


@asynccontextmanager
async def session(key: str | None = "me", **more: object) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with *key*, patient for a minute."""
    headers = {} if key is None else {"x-api-key": key}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, **more),  # type: ignore[arg-type]
        timeout=aiohttp.ClientTimeout(total=60),
        headers=headers,
    ) as opened:
        yield opened


async def ask(client: aiohttp.ClientSession, method: str, url: str) -> Answered:
    """The answer to one request."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with client.request(method, URL(url, encoded=True), allow_redirects=False) as answer:
            body = await answer.read()
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answered(answer.status, body, loop.time() - begun, headers)
    except (aiohttp.ClientError, TimeoutError):
        return Answered(0, b"", loop.time() - begun, {})


async def ask_all(
    client: aiohttp.ClientSession, method: str, urls: Sequence[str], at_once: int = 64
) -> list[Answered]:
    """The answers to all *urls* in their order, *at_once* under way."""
    answers: list[Answered | None] = [None] * len(urls)
    left = iter(range(len(urls)))

    async def one() -> None:
        for number in left:
            answers[number] = await ask(client, method, urls[number])

    await asyncio.gather(*(one() for _ in range(at_once)))
    return [answer for answer in answers if answer is not None]


def percentile(seconds: Sequence[float], part: int) -> float:
    """The milliseconds within which *part* per cent of the answers came; 0 without any."""
    if not seconds:
        return 0.0
    return sorted(seconds)[min(len(seconds) - 1, len(seconds) * part // 100)] * 1000


@asynccontextmanager
async def tails_of_version(*urls: str) -> AsyncIterator[list[float]]:
    """Meanwhile somebody asks each of *urls* for /version, from a process of its own.

    When it is over the list has, for each, the milliseconds within which 99 of 100 answers came.
    Any answer but 200 raises ValueError then."""
    tails: list[float] = []
    pipe = asyncio.subprocess.PIPE
    async with AsyncExitStack() as stack:
        children = []
        for url in urls:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.version_times", url), stdin=pipe, stdout=pipe
            )
            stack.callback(_end, child)
            children.append(child)
        yield tails
        for child in children:
            said, _ = await child.communicate(b"")
            tails.append(json.loads(said)["p99"])


def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()


class Single(asyncio.Protocol):
    """A connection that sends *request* as it is, and says when its answer, or its end, came."""

    transport: asyncio.Transport

    def __init__(self, request: bytes, done: Callable[["Single"], None]) -> None:
        self._request, self._done = request, done
        self.begun = self.seconds = 0.0
        self.said = b""
        self.is_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.begun = asyncio.get_running_loop().time()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.said += data[:CHUNK]
        if b"\r\n\r\n" in self.said:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.seconds = asyncio.get_running_loop().time() - self.begun
            self._done(self)


async def connect(port: int, request: bytes, number: int, done: Callable[[Single], None]) -> Single:
    """One of many: the *number* chooses its address."""
    _, single = await asyncio.get_running_loop().create_connection(
        lambda: Single(request, done),
        *("127.0.0.1", port),
        local_addr=(f"127.0.0.{2 + number % 8}", 0),
    )
    return single
