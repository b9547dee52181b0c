"""A service of several workers, as processes of their own: which there are, what they count, and
what of a limit they leave to clients."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from tests.process import Running, running
from tests.waiting import until
from tests.world.peers import free_port

_CONNECTIONS: Final = 8


def workers_of(service: Running) -> set[int]:
    """The ids of the processes below the supervisor (proc(5))."""
    pid = service.child.pid
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@dataclass(frozen=True)
class Workers:
    """The *service*, and the port of its *admin* listener."""

    service: Running
    admin: int

    @property
    def port(self) -> int:
        """That of the service."""
        port = URL(self.service.url).port
        assert port is not None
        return port

    @property
    def pids(self) -> set[int]:
        """Those of the workers."""
        return workers_of(self.service)

    async def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the admin listener."""
        url = f"http://127.0.0.1:{self.admin}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def number(self, metric: str) -> float:
        """The sum of a metric's samples; 0 where it has none."""
        _, text = await self.page("/metrics")
        found = re.findall(rf"^content_gateway_{metric}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))

    async def logged(self, text: str, times: int = 1) -> None:
        """Wait until it has logged *text* so often."""
        await until(lambda: self.service.log.read_text().count(text) >= times, seconds=60)


class Clients:
    """Several connections to *workers*, all with one key, whose requests of a day are limited."""

    def __init__(self, workers: Workers, session: aiohttp.ClientSession) -> None:
        self._url = f"http://127.0.0.1:{workers.port}/key"
        self._session = session

    async def _left(self) -> int | None:
        """Send a request: what its worker knows to be left after it, None if it was refused."""
        async with self._session.get(self._url, headers={"x-api-key": "me"}) as answer:
            is_let_in = answer.status == 200
            return int(answer.headers["x-dailylimit-remaining"]) if is_let_in else None

    async def let_in(self, requests: int) -> int:
        """How many of so many requests, spread over the connections, get 200."""

        async def client() -> int:
            found = [await self._left() for _ in range(requests // _CONNECTIONS)]
            return len(found) - found.count(None)

        return sum(await asyncio.gather(*(client() for _ in range(_CONNECTIONS))))

    async def all_know(self, left: int) -> int:
        """Ask until the worker of each connection knows that *left* and no more were left when it
        was asked; returns how many are left now."""
        while True:
            found = await asyncio.gather(*(self._left() for _ in range(_CONNECTIONS)))
            seen = [each for each in found if each is not None]
            assert len(seen) == _CONNECTIONS, "a limit is reached, and not all workers know of it"
            left, before = left - _CONNECTIONS, left
            if max(seen) < before:
                return left
            await asyncio.sleep(0.3)


@asynccontextmanager
async def with_workers(
    data: Path, number: int = 2, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Workers]:
    """`serve` with so many workers and an admin listener."""
    port = free_port()
    chosen = {"CONTENT_GATEWAY_WORKERS": str(number), "CONTENT_GATEWAY_ADMIN__PORT": str(port)}
    async with running("serve", data, chosen | dict(settings or {})) as service:
        yield Workers(service, port)
