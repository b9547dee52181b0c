"""A gateway that lies: stands before a real one, and says now and then what is not so.

It is there to be found out by the checker. Which lie it tells is chosen by whoever starts it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from content_gateway.codecs.timestamps import rfc3339
from tests.machines.requests import Reply, ask

_OFTEN = 15  # of so many requests of its kind one is answered with a lie


class Liar:
    """Passes requests on to *port*, but for its lies; `told` counts them."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.told = 0
        self._to = port
        self._asked = 0
        self._old: dict[str, Reply] = {}

    async def answer(self, method: str, path: str, key: str) -> Reply:
        """The true answer."""
        return await ask(self._to, method, path, key, seconds=20)

    def is_time(self) -> bool:
        """Whether now is the moment for a lie."""
        self._asked += 1
        return self._asked % _OFTEN == 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        key = head.partition("x-api-key: ")[2].partition("\r\n")[0]
        reply = await self.answer(method, path, key)
        body = json.dumps(reply.body).encode()
        writer.write(f"HTTP/1.1 {reply.status} -\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()
        writer.close()


class Forgets(Liar):
    """Acknowledges an addition that it has not passed on."""

    async def answer(self, method: str, path: str, key: str) -> Reply:
        if method == "POST" and self.is_time():
            self.told += 1
            return _added()
        return await super().answer(method, path, key)


class Repeats(Liar):
    """Says of a pin that is there that it is new."""

    async def answer(self, method: str, path: str, key: str) -> Reply:
        reply = await super().answer(method, path, key)
        if method == "POST" and "exists" in reply.body["message"] and self.is_time():
            self.told += 1
            return _added()
        return reply


class Remembers(Liar):
    """Answers a question for the status as it did the last time, however long ago."""

    async def answer(self, method: str, path: str, key: str) -> Reply:
        question = f"{key} {path}"
        if method == "GET" and question in self._old and self.is_time():
            self.told += 1
            return self._old[question]
        reply = await super().answer(method, path, key)
        if "/status/" in path:
            self._old[question] = reply
        return reply


class Keeps(Liar):
    """Confirms a removal that it has not passed on."""

    async def answer(self, method: str, path: str, key: str) -> Reply:
        if method == "DELETE" and self.is_time():
            self.told += 1
            return Reply(200, {"message": "Pin removed"})
        return await super().answer(method, path, key)


def _added() -> Reply:
    now = rfc3339(datetime.now(UTC))
    return Reply(200, {"message": "Pin added", "result": {"timestamp": now}})


@asynccontextmanager
async def lying(liar: Liar) -> AsyncIterator[Liar]:
    """*liar*, listening on its `port`."""
    server = await asyncio.start_server(liar.take, "127.0.0.1", 0)
    liar.port = server.sockets[0].getsockname()[1]
    try:
        yield liar
    finally:
        server.close()
