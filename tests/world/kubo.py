"""Real Kubos with empty repositories: one that is cut off, or several that fetch from each other.

Adds content without pinning it and says what a node holds. A lone node's missing blocks fail at
once, as there is nobody to ask; the nodes of a private swarm on loopback ask each other, and
nobody else."""

import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from .peers import Process, answers, ask, free_port, require_peer


class KuboError(Exception):
    """Kubo refused a request; the message is its own."""


class Swarm:
    """A private network on loopback, and who belongs to it."""

    def __init__(self) -> None:
        self.key = secrets.token_hex(32)
        self.members: list[Kubo] = []


class Kubo:
    """A running daemon: `url` is its RPC API, `gateway_url` its gateway.

    With a *swarm* it is connected to that swarm's members; without one it is offline. Names are
    resolved by *resolvers*, URLs of DNS over HTTPS by ending (`eth.`), trusted by *authority*."""

    def __init__(
        self,
        directory: Path,
        swarm: Swarm | None = None,
        *,
        resolvers: Mapping[str, str] | None = None,
        authority: Path | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, gateway_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.gateway_url = f"http://127.0.0.1:{gateway_port}"
        self.swarm_address = f"/ip4/127.0.0.1/tcp/{free_port()}"
        self._swarm = swarm
        self._addresses = {
            "API": f"/ip4/127.0.0.1/tcp/{self.port}",
            "Gateway": f"/ip4/127.0.0.1/tcp/{gateway_port}",
            "Swarm": [self.swarm_address] if swarm else [],
        }
        self._repository = directory / "kubo"
        self._ipfs = require_peer("ipfs")
        self._log = directory / "kubo.log"
        self._env = {
            "IPFS_PATH": str(self._repository),
            "IPFS_TELEMETRY": "off",
            "LIBP2P_FORCE_PNET": "1",  # no swarm but a private one, should it ever open any
        }
        self._resolvers = resolvers
        if authority is not None:
            self._env["SSL_CERT_FILE"] = str(authority)
        daemon: list[str | Path] = [self._ipfs, "daemon", *([] if swarm else ["--offline"])]
        self._daemon = Process(daemon, log=self._log, env=self._env)

    async def create(self) -> None:
        """Make the repository, and join the swarm if there is one."""
        init = Process([self._ipfs, "init", "--profile=test"], log=self._log, env=self._env)
        await init.run()
        path = self._repository / "config"
        config = json.loads(path.read_text())
        config["Addresses"] |= self._addresses
        config["Routing"]["Type"] = "none"
        config["Provide"]["Enabled"] = False
        if self._swarm:
            _keep_to_loopback(config)
            self.swarm_address += f"/p2p/{config['Identity']['PeerID']}"
            self._swarm.members.append(self)
        if self._resolvers is not None:
            config["AutoConf"] = {"Enabled": False}  # or it would want what it cannot fetch
            config["DNS"] = {"Resolvers": dict(self._resolvers)}
            config["Bootstrap"] = config["Ipns"]["DelegatedPublishers"] = []
            config["Routing"]["DelegatedRouters"] = []
        path.write_text(json.dumps(config))
        secret = self._swarm.key if self._swarm else secrets.token_hex(32)
        key = f"/key/swarm/psk/1.0.0/\n/base16/\n{secret}\n"
        (self._repository / "swarm.key").write_text(key)

    async def start(self) -> None:
        """Start, with the ports and blocks it had before, and meet the swarm's other members."""
        await self._daemon.start(lambda: answers(200, "POST", self.url + "/api/v0/id"))
        for other in self._swarm.members if self._swarm else ():
            if other is not self and other.is_running:
                await self.connect(other.swarm_address)

    async def connect(self, address: str) -> None:
        """Connect to the node at that multiaddr."""
        await self._ask(f"swarm/connect?arg={address}")

    @property
    def environment(self) -> dict[str, str]:
        """What `ipfs` needs to be told to speak to this daemon."""
        return dict(self._env)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that it has taken since it was started last."""
        return self._daemon.cpu_seconds

    @property
    def is_running(self) -> bool:
        """Whether the daemon was started, and not stopped since."""
        return self._daemon.pid is not None

    async def stop(self) -> None:
        """Stop, keeping ports and blocks."""
        await self._daemon.stop()

    async def add_directory(self, files: Mapping[str, bytes], *more: str) -> str:
        """The CID of a UnixFS directory of *files*, by path; nothing is pinned.

        *more* are options of `ipfs add` (`chunker=size-1000`), before those that are usual here."""
        form = aiohttp.FormData()
        for path, content in files.items():
            form.add_field("file", content, filename=path, content_type="application/octet-stream")
        usual = {"cid-version": "1", "raw-leaves": "true", "wrap-with-directory": "true"}
        chosen = usual | dict(one.split("=") for one in more) | {"pin": "false"}
        query = "&".join(f"{name}={value}" for name, value in chosen.items())
        text = await self._ask(f"add?{query}", form)
        cid: str = json.loads(text.splitlines()[-1])["Hash"]
        return cid

    async def import_car(self, car: bytes) -> None:
        """Take the blocks of a CAR, and pin nothing; KuboError where it is not one."""
        form = aiohttp.FormData()
        form.add_field("file", car, filename="blocks.car")
        text = await self._ask("dag/import?pin-roots=false&stats=true", form)
        if "BlockCount" not in text:
            raise KuboError(text)

    async def cat(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of the file at *path* from *offset* on, up to the first block that is missing
        here."""
        part = f"&offset={offset}" + ("" if length is None else f"&length={length}")
        url = f"{self.url}/api/v0/cat?offline=true&arg={quote(path)}{part}"
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            body = await response.read()
            return body if response.status == 200 else b""

    async def add_raw(self, content: bytes) -> str:
        """The CIDv1 (raw, sha2-256) of a single block; nothing is pinned."""
        return await self.add_block(content)

    async def add_block(self, content: bytes, codec: str = "raw") -> str:
        """The CIDv1 (sha2-256) of a single block of that *codec*; nothing is pinned."""
        form = aiohttp.FormData()
        form.add_field("file", content, filename="block")
        text = await self._ask(f"block/put?cid-codec={codec}&mhtype=sha2-256&pin=false", form)
        cid: str = json.loads(text)["Key"]
        return cid

    async def remove_block(self, cid: str) -> None:
        """Forget the block of *cid*; KuboError when it is pinned."""
        text = await self._ask(f"block/rm?force=true&arg={cid}")
        if error := json.loads(text or "{}").get("Error"):
            raise KuboError(error)

    async def collect_garbage(self) -> None:
        """Drop every block that no pin needs."""
        await self._ask("repo/gc")

    async def pins(self) -> set[str]:
        """The CIDs that are pinned recursively, as Kubo spells them."""
        return set(json.loads(await self._ask("pin/ls?type=recursive")).get("Keys") or ())

    async def resolve_name(self, name: str) -> str:
        """The path that the IPNS name *name* leads to; KuboError where it leads nowhere."""
        text = await self._ask(f"name/resolve?recursive=false&arg={name}")
        path: str = json.loads(text)["Path"]
        return path

    async def unpin(self, cid: str) -> None:
        """Remove a pin without the knowledge of whoever asked for it."""
        await self._ask(f"pin/rm?arg={cid}")

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


def _keep_to_loopback(config: dict[str, Any]) -> None:
    """Let *config* know nobody but whom it is told of, over the one transport swarm keys allow."""
    config["Bootstrap"] = []
    config["AutoConf"] = {"Enabled": False}
    config["AutoTLS"] = {"Enabled": False}
    config["DNS"] = {"Resolvers": {}}
    config["Ipns"]["DelegatedPublishers"] = []
    config["Routing"]["DelegatedRouters"] = []
    config["Discovery"]["MDNS"]["Enabled"] = False
    config["Swarm"]["DisableNatPortMap"] = True
    config["Swarm"]["RelayClient"] = {"Enabled": False}
    config["Swarm"]["RelayService"] = {"Enabled": False}
    others = ("QUIC", "Websocket", "WebTransport", "WebRTCDirect", "Relay")
    config["Swarm"]["Transports"]["Network"] = dict.fromkeys(others, False)


@asynccontextmanager
async def running_kubo(directory: Path, swarm: Swarm | None = None) -> AsyncIterator[Kubo]:
    """A daemon whose repository and log are in *directory*; offline without a *swarm*."""
    kubo = Kubo(directory, swarm)
    await kubo.create()
    await kubo.start()
    try:
        yield kubo
    finally:
        await kubo.stop()


@asynccontextmanager
async def running_kubos(directory: Path, count: int) -> AsyncIterator[Sequence[Kubo]]:
    """So many daemons that can fetch from each other, and from nobody else."""
    swarm = Swarm()
    async with AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(running_kubo(directory / f"kubo{number}", swarm))
        yield tuple(swarm.members)
