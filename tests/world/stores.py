"""A Redis or a Valkey of its own for a test, on a loopback port, with its data in a folder.

It writes what it is told within a second (appendonly), can be killed, stopped where it stands and
started again. Without such a server the tests skip (`make peers`)."""

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from content_gateway.valkey.connection import StoreUnreachable, connected
from content_gateway.valkey.rows import Command
from tests.world.peers import Process, free_port, require_peer

KINDS: Final = ("redis", "valkey")


class Store:
    """A server of *kind*, with *settings* of its own, and its files in *folder*."""

    def __init__(self, kind: str, folder: Path, **settings: str) -> None:
        self.kind = kind
        self.port = free_port()
        self.socket = folder / "socket"
        self._folder = folder
        chosen = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(folder),
            "unixsocket": str(self.socket),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
        }
        chosen |= {name.replace("_", "-"): value for name, value in settings.items()}
        words = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        program = require_peer(f"{kind}-server")
        self._process = Process([program, *words], log=folder / "log")
        self._password = settings.get("requirepass", "")

    @property
    def url(self) -> str:
        """As `limits.url` wants it."""
        user = f":{self._password}@" if self._password else ""
        return f"{self.kind}://{user}127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of its process, which runs."""
        assert self._process.pid is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and return once it answers."""
        await self._process.start(self._answers)

    async def kill(self) -> None:
        """End it at once."""
        await self._process.kill9()

    async def shut_down(self) -> None:
        """End it in an orderly way: all that it was told is on disk."""
        await self._process.stop()

    def forget(self) -> None:
        """Lose what is on disk, while it does not run."""
        for path in (self._folder / "appendonlydir").glob("*"):
            path.unlink()

    def hang(self) -> None:
        """Have it stand still: connections are made, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Go on after `hang`."""
        self._signal(signal.SIGCONT)

    async def ask(self, *commands: Command) -> list[Any]:
        """Its replies to *commands*."""
        async with connected(self.url) as link:
            return await link.ask(commands)

    async def keys(self) -> dict[str, int]:
        """All keys, and in how many seconds each of them expires; -1 for never."""
        (names,) = await self.ask(("KEYS", "*"))
        lives = await self.ask(*(("TTL", name.decode()) for name in names)) if names else []
        return {name.decode(): life for name, life in zip(names, lives, strict=True)}

    def _signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5):
                pass
            if self._password or not self.url.startswith(self.kind):
                return True
            await self.ask(("PING",))
        except (OSError, StoreUnreachable):
            return False
        return True


@asynccontextmanager
async def running_store(kind: str, folder: Path, **settings: str) -> AsyncIterator[Store]:
    """A server of *kind* that is started, and ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(kind, folder, **settings)
    await store.start()
    try:
        yield store
    finally:
        await store.kill()


class Garbage:
    """What listens where a store should, and says *answer* to whatever comes, again and again."""

    def __init__(self, answer: bytes, *, context: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.asked = 0
        self.sent = 0
        self.port = free_port()
        self._context = context
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """As `limits.url` wants it."""
        return f"redis://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "Garbage":
        self._server = await asyncio.start_server(
            self._talk, "127.0.0.1", self.port, ssl=self._context
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(65_536):
                self.asked += 1
                writer.write(self.answer)
                self.sent += len(self.answer)
                await writer.drain()
        writer.close()
