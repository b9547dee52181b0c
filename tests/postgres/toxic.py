"""A network between a client and a server that fails as a test says: a small TCP proxy.

It drops packets (connections stay open, and nothing comes through: what a cable that was pulled
looks like), delays them, or cuts connections. Knows nothing of what is said over it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Link:
    """Passes bytes on to *port* while it is not dropping them; listens on its own `port`.

    `delay`: seconds that whatever comes through takes longer."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.delay = 0.0
        self._passes = asyncio.Event()
        self._passes.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def drop(self) -> None:
        """Let nothing through, from now on."""
        self._passes.clear()

    def mend(self) -> None:
        """Let everything through again."""
        self._passes.set()

    def cut(self) -> None:
        """End the connections of this moment; new ones pass."""
        for task in self._tasks:
            task.cancel()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._passes.wait()
                there, back = await asyncio.open_connection("127.0.0.1", self._to)
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        finally:
            self._tasks.discard(task)
            # Also where the server is not there: else its client would wait for ever.
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self._tasks)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def linked(port: int) -> AsyncIterator[Link]:
    """A link to the server at *port*."""
    link = Link(port)
    server = await asyncio.start_server(link.take, "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        await link.close()
