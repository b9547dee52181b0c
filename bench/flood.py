"""One key at full load, in a process of its own: connections that ask again as soon as they are
answered, whatever the answer is.

It is told "go" and "rest" on standard input, and says on standard output how many answers came
when it rests. Deliberately thin, so that the service is busy and not its client; and it gives way
to the client that is measured. What is asked in which way is left to `ways.py`."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Final, Self

import uvloop

from bench.ways import WAYS, Request

_NICE: Final = 10
_HOG: Final = "127.0.0.1"
_KEPT: Final = 1_024
_END: Final = b"\r\n0\r\n\r\n"
_LENGTH: Final = b"content-length: "


class Connection(asyncio.Protocol):
    """One keep-alive connection; *answered* is called with the status of each whole answer."""

    transport: asyncio.Transport

    def __init__(self, answered: Callable[["Connection", int], None]) -> None:
        self._answered = answered
        self._head = b""
        self._left: int | None = None  # bytes of the body under way; None: it is chunked
        self._tail = b""
        self._has_head = False
        self.answer = b""  # the latest one, unless it was long

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._has_head:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._has_head = True
            data = self._head[end + 4 :]
            at = self._head.find(_LENGTH, 0, end)
            self._left = None
            if at >= 0:
                self._left = int(self._head[at + len(_LENGTH) : self._head.find(b"\r", at)])
        self._tail = (self._tail + data)[-_KEPT:]
        if self._left is not None:
            self._left -= len(data)
            is_whole = self._left <= 0
        else:
            is_whole = self._tail.endswith(_END)
        if is_whole:
            status, self.answer = int(self._head[9:12]), self._tail
            self._head, self._has_head, self._tail = b"", False, b""
            self._answered(self, status)


class Flood:
    """The load of *request* on loopback *port* over so many *connections*."""

    def __init__(self, port: int, request: Request, connections: int) -> None:
        self._port, self._request, self._connections = port, request, connections
        self._open: list[Connection] = []
        self._number = 0
        self._answers = 0

    async def go(self) -> Self:
        """Begin."""
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            _, connection = await loop.create_connection(
                lambda: Connection(self._ask), "127.0.0.1", self._port, local_addr=(_HOG, 0)
            )
            self._open.append(connection)
            self._ask(connection)
        self._answers = 0
        return self

    def rest(self) -> int:
        """Hang up; the answers that have come."""
        for connection in self._open:
            connection.transport.abort()
        self._open.clear()
        return self._answers

    def _ask(self, connection: Connection, status: int = 200) -> None:
        self._answers += 1
        self._number += 1
        connection.transport.write(self._request(self._number))


async def main(port: int, way: str, argument: str) -> None:
    """Go and rest as told, until there is nobody to tell."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    chosen = WAYS[way]
    flood = Flood(port, chosen.load(port, argument), chosen.connections)
    while await lines.readline():
        await flood.go()
        print("going", flush=True)
        await lines.readline()
        print(flood.rest(), flush=True)


if __name__ == "__main__":
    os.nice(_NICE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
