"""One HTTP request on a connection of its own, sent once: no client library tries it again for us.

Tells apart what a history has to: nobody took it, nobody knows, or an answer."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


class NeverSent(Exception):
    """Nobody took the connection: nothing of the request has left."""


class NoAnswer(Exception):
    """The request was sent, and its answer did not come, or not all of it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that came whole."""

    status: int
    body: dict[str, Any]


async def ask(port: int, method: str, path: str, key: str, *, seconds: float) -> Reply:
    """The reply to one request; raises NeverSent, and NoAnswer, also after *seconds*."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as refused:
        raise NeverSent(str(refused)) from refused
    try:
        async with asyncio.timeout(seconds):
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {key}\r\n"
            writer.write(f"{head}Connection: close\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return _reply(await reader.read(-1))
    except TimeoutError as late:
        raise NoAnswer(f"no answer in {seconds:g} s") from late
    except OSError as cut:
        raise NoAnswer(str(cut)) from cut
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _reply(read: bytes) -> Reply:
    head, found, body = read.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if not found or len(body) != int(fields.get("content-length", -1)):
        raise NoAnswer("the connection ended before the answer did")
    return Reply(int(lines[0].split()[1]), json.loads(body) if body else {})
