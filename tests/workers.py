"""A service of several workers, as processes of their own: which there are, and what they count."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from yarl import URL

from tests.process import Running, running
from tests.waiting import until
from tests.world.peers import free_port


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


@asynccontextmanager
async def with_workers(
    data: Path, number: int = 2, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Workers]:
    """`serve` with so many workers and an admin listener."""
    port = free_port()
    chosen = {"CONTENT_GATEWAY_WORKERS": str(number), "CONTENT_GATEWAY_ADMIN__PORT": str(port)}
    async with running("serve", data, chosen | dict(settings or {})) as service:
        yield Workers(service, port)
