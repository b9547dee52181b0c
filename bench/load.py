"""The load: keep-alive connections that each send the next request when an answer is complete.

Counts answers with status 200 and how long each took, and fails on any other, so that a broken
server cannot be fast. Deliberately thin: it must cost less than the servers it measures."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Self

KEY = b"bench"


class _Connection(asyncio.Protocol):
    """One connection; takes requests as long as there are any, reads answers by their length."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._buffer = b""
        self._sent_at = 0.0
        self.seconds: list[float] = []
        self.wrong: bytes | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def ask(self) -> None:
        """Send the next request."""
        request = next(self._requests, None)
        if request is not None:
            self._sent_at = time.perf_counter()
            self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = self._buffer.find(b"content-length: ")
        size = int(self._buffer[length + 16 : self._buffer.find(b"\r\n", length)])
        if len(self._buffer) < end + 4 + size:
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self.wrong = self._buffer
            self.transport.close()
            return
        self.seconds.append(time.perf_counter() - self._sent_at)
        self._buffer = b""
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self.wrong = self.wrong or b"the connection was closed"


class Load:
    """One round of *requests* to the server on loopback *port*, over so many *connections*."""

    def __init__(self, port: int, requests: Iterator[bytes], connections: int) -> None:
        self._port, self._requests, self._connections = port, requests, connections
        self.rate = 0.0
        self._seconds: list[float] = []

    async def run(self, seconds: float) -> Self:
        """Ask for *seconds*, or until there are no more requests; good answers count."""
        loop = asyncio.get_running_loop()
        opened = [
            (
                await loop.create_connection(
                    lambda: _Connection(self._requests), "127.0.0.1", self._port
                )
            )[1]
            for _ in range(self._connections)
        ]
        start = time.perf_counter()
        for connection in opened:
            connection.ask()
        await asyncio.sleep(seconds)
        elapsed = time.perf_counter() - start
        self._seconds = sorted(took for connection in opened for took in connection.seconds)
        self.rate = len(self._seconds) / elapsed
        for connection in opened:
            assert connection.wrong is None, connection.wrong
            connection.transport.abort()
        assert next(self._requests, None) is not None, "the requests have run out"
        return self

    def percentile(self, part: int) -> float:
        """The milliseconds within which *part* per cent of the answers came."""
        return self._seconds[min(len(self._seconds) - 1, len(self._seconds) * part // 100)] * 1000


async def requests_per_second(port: int, path: str, connections: int, seconds: float) -> float:
    """The rate of good answers to GETs of *path* from the server on loopback *port*."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-api-key: {KEY.decode()}\r\n\r\n"
    ).encode()
    return (await Load(port, itertools.repeat(request), connections).run(seconds)).rate
