"""The load: keep-alive connections that each send the next request when an answer is complete.

Counts answers with status 200 and fails on any other, so that a broken server cannot be fast.
Deliberately thin: it must cost less than the servers it measures."""

import asyncio
import time

KEY = b"bench"


class _Connection(asyncio.Protocol):
    """One connection; reads answers by their Content-Length."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._buffer = b""
        self.answers = 0
        self.wrong: bytes | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write(self._request)

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
        self.answers += 1
        self._buffer = b""
        self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.wrong = self.wrong or b"the connection was closed"


async def requests_per_second(port: int, path: str, connections: int, seconds: float) -> float:
    """The rate of good answers from the server on loopback *port*."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-api-key: {KEY.decode()}\r\n\r\n"
    ).encode()
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(lambda: _Connection(request), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    start = time.perf_counter()
    before = sum(connection.answers for connection in opened)
    await asyncio.sleep(seconds)
    answers = sum(connection.answers for connection in opened) - before
    elapsed = time.perf_counter() - start
    for connection in opened:
        assert connection.wrong is None, connection.wrong
        connection.transport.abort()
    return answers / elapsed
