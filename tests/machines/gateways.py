"""Gateways as processes of their own, each on a port that stays, killed and started again.

Each has links of its own to both databases, and tells its process by the path of its name
service's URL, so that look-ups are counted by process."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.machines.requests import NeverSent, NoAnswer, ask
from tests.postgres.toxic import Link
from tests.world.peers import Process, free_port
from tests.world.postgres import USER

DATABASE_SECONDS = 2.0


class Gateway:
    """`content-gateway serve` number *number*, with its data and log in *folder*.

    `life` tells its processes apart; `links` lead to the databases."""

    def __init__(
        self, number: int, folder: Path, links: Sequence[Link], settings: Mapping[str, str]
    ) -> None:
        self.name = f"gateway{number}"
        self.port = free_port()
        self.links = links
        self.life = 0
        self.is_up = False
        self._folder = folder
        hosts = ",".join(f"127.0.0.1:{link.port}" for link in links)
        url = f"postgresql://{USER}@{hosts}/ledger?target_session_attrs=read-write"
        self._settings = {
            "DATABASE__URL": f"{url}&connect_timeout=2",
            "DATABASE__TIMEOUT": str(DATABASE_SECONDS),
            "DATA_DIR": str(folder / self.name),
            "PORT": str(self.port),
            "ADMIN__PORT": "0",
            "KEYS__MODE": "open",
            "AUDIT__ENTRIES": "10000000",
            "NAMES__FRESH": "86400",
            "IPNS__ROUTERS": "[]",
            "IPNS__GATEWAYS": "[]",
            "IPNS__DNS_SERVERS": '["127.0.0.1"]',
            "LOG__ACCESS": "off",
            **settings,
        }
        self._process: Process | None = None

    async def start(self, ethereum: str) -> None:
        """Start, again and again as a service manager would, until it answers."""
        self.life += 1
        settings = self._settings | {"ENS__RPC_URLS": json.dumps([f"{ethereum}/{self.process}"])}
        environment = {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}
        command = [sys.executable, "-m", "content_gateway", "serve"]
        log = self._folder / f"{self.name}.log"
        async with asyncio.timeout(180):
            while True:
                self._process = Process(command, log=log, env=environment)
                try:
                    await self._process.start(self._answers, seconds=60)
                except RuntimeError:  # its database is away
                    await self._process.kill9()
                    await asyncio.sleep(0.2)
                else:
                    self.is_up = True
                    return

    @property
    def process(self) -> str:
        """What tells this process from those before it."""
        return f"{self.name}.{self.life}"

    async def kill9(self) -> None:
        """End it at once."""
        self.is_up = False
        if self._process is not None:
            await self._process.kill9()

    async def _answers(self) -> bool:
        try:
            return (await ask(self.port, "GET", "/version", "me", seconds=10)).status == 200
        except (NeverSent, NoAnswer):
            return False
