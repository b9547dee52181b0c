"""A real IPFS Cluster of one peer (CRDT, pebble) before a Kubo.

Says what its pinset holds. Quick to notice things, as the intervals are short;
pins reach Kubo only for blocks Kubo has, so add these first."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from .kubo import Kubo
from .peers import Process, ask, free_port, require_peer


class Cluster:
    """A running peer: `url` is its REST API, behind `username` and `password`.

    `credentials` are the same two as a request header.
    """

    def __init__(self, directory: Path, kubo: Kubo) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.username, self.password = "gateway", "cluster-password"
        login = aiohttp.encode_basic_auth(self.username, self.password)
        self.credentials = {"Authorization": login}
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(require_peer("ipfs-cluster-service")), "-c", str(directory / "cluster")]
        log, env = directory / "cluster.log", self._settings(port, kubo)
        init = ["init", "--consensus", "crdt", "--datastore", "pebble"]
        self._init = Process([*command, *init], log=log, env=env)
        self._daemon = Process([*command, "daemon"], log=log, env=env)

    def _settings(self, port: int, kubo: Kubo) -> dict[str, str]:
        kubo_api = f"/ip4/127.0.0.1/tcp/{kubo.port}"
        settings = {
            "SECRET": secrets.token_hex(32),
            "PEERNAME": "peer0",
            "CRDT_CLUSTERNAME": "content-gateway-tests",
            "CRDT_TRUSTEDPEERS": "*",
            "LISTENMULTIADDRESS": _loopback(),
            "RESTAPI_HTTPLISTENMULTIADDRESS": f"/ip4/127.0.0.1/tcp/{port}",
            "RESTAPI_BASICAUTHCREDENTIALS": f"{self.username}:{self.password}",
            "IPFSPROXY_LISTENMULTIADDRESS": _loopback(),
            "IPFSPROXY_NODEMULTIADDRESS": kubo_api,
            "PINSVCAPI_HTTPLISTENMULTIADDRESS": _loopback(),
            "IPFSHTTP_NODEMULTIADDRESS": kubo_api,
            "IPFSHTTP_PINTIMEOUT": "5s",
            "MDNSINTERVAL": "0",
            "MONITORPINGINTERVAL": "2s",
            "PINRECOVERINTERVAL": "15s",
        }
        return {f"CLUSTER_{name}": value for name, value in settings.items()}

    async def create(self) -> None:
        """Make the peer's identity and configuration."""
        await self._init.run()

    async def start(self) -> None:
        """Start, with the port and pinset it had before; return once it can allocate pins."""
        for _ in range(3):
            try:
                return await self._daemon.start(self._can_allocate)
            except RuntimeError:
                # A request that comes in while the REST API is up and the peer is not makes
                # ipfs-cluster 1.1.6 panic (a nil RPC client), and asking is how we learn.
                await self._daemon.kill9()
        return await self._daemon.start(self._can_allocate)

    async def stop(self) -> None:
        """Stop in order, keeping port and pinset."""
        await self._daemon.stop()

    async def kill9(self) -> None:
        """End it without a chance to write anything more.

        Pins it has confirmed, even a minute ago, may be gone: pebble writes its log in
        blocks of 32 KiB. Kubo keeps them pinned all the same.
        """
        await self._daemon.kill9()

    async def pinset(self) -> set[str]:
        """The CIDs the cluster should hold, as it spells them."""
        _, text = await self._ask("/allocations?filter=all")
        return {json.loads(line)["cid"] for line in text.splitlines()}

    async def allocation(self, cid: str) -> dict[str, Any] | None:
        """The pin of *cid* in the pinset; None when it is not there."""
        status, text = await self._ask(f"/allocations/{cid}")
        if status == 404:
            return None
        pin: dict[str, Any] = json.loads(text)
        return pin

    async def _can_allocate(self) -> bool:
        """Healthy, a peer listed, and its metrics known: without these no peer is chosen."""
        try:
            if (await ask("GET", self.url + "/health"))[0] != 204:
                return False
            answers = [await self._ask("/peers")]
            for metric in ("ping", "freespace", "tag:group"):
                answers.append(await self._ask(f"/monitor/metrics/{metric}"))
        except aiohttp.ClientError:
            return False
        return all(status == 200 and '"peer' in text for status, text in answers)

    async def _ask(self, path: str) -> tuple[int, str]:
        return await ask("GET", self.url + path, headers=self.credentials)


def _loopback() -> str:
    return f"/ip4/127.0.0.1/tcp/{free_port()}"


@asynccontextmanager
async def running_cluster(directory: Path, kubo: Kubo) -> AsyncIterator[Cluster]:
    """A peer before *kubo*, whose files and log are in *directory*."""
    cluster = Cluster(directory, kubo)
    await cluster.create()
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()
