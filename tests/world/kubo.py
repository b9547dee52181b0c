"""A real Kubo with an empty repository, cut off from every network.

Adds content without pinning it and says what it holds. Missing blocks fail at
once: there is nobody to ask."""

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from .peers import Process, answers, ask, free_port, require_peer


class KuboError(Exception):
    """Kubo refused a request; the message is its own."""


class Kubo:
    """A running daemon: `url` is its RPC API, `gateway_url` its gateway."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, gateway_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.gateway_url = f"http://127.0.0.1:{gateway_port}"
        self._addresses = {
            "API": f"/ip4/127.0.0.1/tcp/{self.port}",
            "Gateway": f"/ip4/127.0.0.1/tcp/{gateway_port}",
            "Swarm": [],
        }
        self._repository = directory / "kubo"
        self._ipfs = require_peer("ipfs")
        self._log = directory / "kubo.log"
        self._env = {
            "IPFS_PATH": str(self._repository),
            "IPFS_TELEMETRY": "off",
            "LIBP2P_FORCE_PNET": "1",  # no swarm but a private one, should it ever open any
        }
        self._daemon = Process([self._ipfs, "daemon", "--offline"], log=self._log, env=self._env)

    async def create(self) -> None:
        """Make the repository."""
        init = Process([self._ipfs, "init", "--profile=test"], log=self._log, env=self._env)
        await init.run()
        path = self._repository / "config"
        config = json.loads(path.read_text())
        config["Addresses"] |= self._addresses
        config["Routing"]["Type"] = "none"
        config["Provide"]["Enabled"] = False
        path.write_text(json.dumps(config))
        key = f"/key/swarm/psk/1.0.0/\n/base16/\n{secrets.token_hex(32)}\n"
        (self._repository / "swarm.key").write_text(key)

    async def start(self) -> None:
        """Start, with the ports and blocks it had before."""
        await self._daemon.start(lambda: answers(200, "POST", self.url + "/api/v0/id"))

    async def stop(self) -> None:
        """Stop, keeping ports and blocks."""
        await self._daemon.stop()

    async def add_directory(self, files: Mapping[str, bytes]) -> str:
        """The CIDv1 of a UnixFS directory of *files*, by path; nothing is pinned."""
        form = aiohttp.FormData()
        for path, content in files.items():
            form.add_field("file", content, filename=path, content_type="application/octet-stream")
        options = "cid-version=1&raw-leaves=true&wrap-with-directory=true&pin=false"
        text = await self._ask(f"add?{options}", form)
        cid: str = json.loads(text.splitlines()[-1])["Hash"]
        return cid

    async def add_raw(self, content: bytes) -> str:
        """The CIDv1 (raw, sha2-256) of a single block; nothing is pinned."""
        form = aiohttp.FormData()
        form.add_field("file", content, filename="block")
        text = await self._ask("block/put?cid-codec=raw&mhtype=sha2-256&pin=false", form)
        cid: str = json.loads(text)["Key"]
        return cid

    async def is_pinned(self, cid: str) -> bool:
        """Whether *cid* is pinned recursively."""
        return await self._holds(f"pin/ls?type=recursive&arg={cid}", no="is not pinned")

    async def has_block(self, cid: str) -> bool:
        """Whether the block of *cid* itself is in the repository."""
        return await self._holds(f"block/stat?offline=true&arg={cid}", no="not find")

    async def _holds(self, command: str, *, no: str) -> bool:
        try:
            await self._ask(command)
        except KuboError as error:
            if no in str(error):
                return False
            raise
        return True

    async def _ask(self, command: str, form: aiohttp.FormData | None = None) -> str:
        status, text = await ask("POST", f"{self.url}/api/v0/{command}", data=form)
        if status != 200:
            raise KuboError(text)
        return text


@asynccontextmanager
async def running_kubo(directory: Path) -> AsyncIterator[Kubo]:
    """A daemon whose repository and log are in *directory*."""
    kubo = Kubo(directory)
    await kubo.create()
    await kubo.start()
    try:
        yield kubo
    finally:
        await kubo.stop()
