"""A real IPFS Cluster (CRDT), of one peer or of several, each before a Kubo of its own.

Says what its pinset holds. Quick to notice things, as the intervals are short; pins reach a
Kubo only for blocks that this Kubo has or can fetch, so add these first."""

import asyncio
import json
import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import eventually

from .kubo import Kubo
from .peers import Process, ask, free_port, require_peer

METRICS = ("ping", "freespace", "tag:group")  # a peer without a fresh one of these gets no pins


class Cluster:
    """A running peer: `url` is its REST API, behind `username` and `password`.

    `credentials` are the same two as a request header; `address` is where other peers find it,
    once it was created; `psa_url` is its own Pinning Service API, which asks for no key. Peers of
    one cluster share a *secret*. Without a *batch_age* every write is committed at once. A pin
    without progress is given up after *pin_timeout* seconds."""

    def __init__(
        self,
        directory: Path,
        kubo: Kubo,
        *,
        name: str = "peer0",
        secret: str = "",
        batch_age: float | None = None,
        pin_timeout: float = 5.0,
        datastore: str = "pebble",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.username, self.password = "gateway", "cluster-password"
        login = aiohttp.encode_basic_auth(self.username, self.password)
        self.credentials = {"Authorization": login}
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        psa_port = free_port()
        self.psa_url = f"http://127.0.0.1:{psa_port}"
        self.address = _loopback()
        self.id = ""
        self._others: Sequence[Cluster] = ()
        self._home, self._datastore = directory / "cluster", datastore
        self._command = [str(require_peer("ipfs-cluster-service")), "-c", str(self._home)]
        self._log = directory / "cluster.log"
        self._env = self._settings(kubo, secret or secrets.token_hex(32), batch_age)
        self._env["CLUSTER_IPFSHTTP_PINTIMEOUT"] = f"{pin_timeout:g}s"
        for api, at in (("RESTAPI", port), ("PINSVCAPI", psa_port)):
            self._env[f"CLUSTER_{api}_HTTPLISTENMULTIADDRESS"] = f"/ip4/127.0.0.1/tcp/{at}"
        self._daemon = self._process("daemon")

    def _settings(self, kubo: Kubo, secret: str, batch_age: float | None) -> dict[str, str]:
        kubo_api = f"/ip4/127.0.0.1/tcp/{kubo.port}"
        settings = {
            "SECRET": secret,
            "PEERNAME": self.name,
            "CRDT_CLUSTERNAME": "content-gateway-tests",
            "CRDT_TRUSTEDPEERS": "*",
            "LISTENMULTIADDRESS": self.address,
            "RESTAPI_BASICAUTHCREDENTIALS": f"{self.username}:{self.password}",
            "IPFSPROXY_LISTENMULTIADDRESS": _loopback(),
            "IPFSPROXY_NODEMULTIADDRESS": kubo_api,
            "IPFSHTTP_NODEMULTIADDRESS": kubo_api,
            "MDNSINTERVAL": "0",
            "MONITORPINGINTERVAL": "2s",
            "PINRECOVERINTERVAL": "15s",
            "CRDT_REBROADCASTINTERVAL": "2s",  # how soon a peer that was away hears what is new
            # How soon peers hear of each other's room; by default it takes 15 s.
            "DISK_METRICTTL": "6s",
            "TAGS_METRICTTL": "6s",
        }
        if batch_age is not None:
            settings["CRDT_BATCHING_MAXBATCHSIZE"] = "10000"
            settings["CRDT_BATCHING_MAXBATCHAGE"] = f"{batch_age:g}s"
        return {f"CLUSTER_{name}": value for name, value in settings.items()}

    def _process(self, *words: str) -> Process:
        return Process([*self._command, *words], log=self._log, env=self._env)

    async def create(self) -> None:
        """Make the peer's identity and configuration."""
        init = ("init", "--consensus", "crdt", "--datastore", self._datastore)
        await self._process(*init).run()
        self.id = json.loads((self._home / "identity.json").read_text())["id"]
        self.address += f"/p2p/{self.id}"

    def meet(self, others: Sequence["Cluster"]) -> None:
        """Know *others*, which were created, from the next start on; it waits for them."""
        self._others = tuple(other for other in others if other is not self)
        self._env["CLUSTER_PEERADDRESSES"] = ",".join(peer.address for peer in self._others)
        self._daemon = self._process("daemon")

    async def start(self) -> None:
        """Start, with the port and pinset it had before; return once it can allocate pins."""
        for _ in range(3):
            try:
                return await self._daemon.start(self._can_allocate)
            except RuntimeError:
                # A request that comes in while the REST API is up and the peer is not makes
                # ipfs-cluster 1.1.6 panic (a nil RPC client), so we ask whether they are.
                await self._daemon.kill9()
        return await self._daemon.start(self._can_allocate)

    async def until_complete(self) -> None:
        """Return once it knows all peers that run, and could allocate to each of them."""
        await eventually(self._can_allocate, what=f"{self.name} knows its cluster", seconds=60)

    async def until_missed(self, dead: "Cluster") -> None:
        """Return once it gives *dead* no more pins: by its last metrics, it could for a while."""

        async def is_so() -> bool:
            answers = [await self._ask(f"/monitor/metrics/{name}") for name in METRICS]
            return all(status == 200 and dead.id not in text for status, text in answers)

        await eventually(is_so, what=f"{self.name} misses {dead.name}", seconds=60)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that it has taken since it was started last."""
        return self._daemon.cpu_seconds

    @property
    def is_running(self) -> bool:
        """Whether the peer was started, and not ended since."""
        return self._daemon.pid is not None

    async def stop(self) -> None:
        """Stop in order, keeping port and pinset."""
        await self._daemon.stop()

    async def kill9(self) -> None:
        """End it without a chance to write anything more.

        Pins it has confirmed, even a minute ago, may be gone: pebble writes its log in
        blocks of 32 KiB. Kubo keeps them pinned all the same.
        """
        await self._daemon.kill9()

    def pause(self) -> None:
        """Let it stand still: its connections stay, and it answers nothing."""
        if (pid := self._daemon.pid) is not None:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after a pause."""
        if (pid := self._daemon.pid) is not None:
            os.kill(pid, signal.SIGCONT)

    def forget_state(self) -> None:
        """Throw the pinset away while it is stopped; other peers would hand it back."""
        assert not self.is_running
        shutil.rmtree(self._home / self._datastore)

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

    async def status(self, cid: str) -> dict[str, str]:
        """What each peer, by its name, says of *cid*."""
        _, text = await self._ask(f"/pins/{cid}")
        peers = json.loads(text)["peer_map"].values()
        return {peer["peername"]: peer["status"] for peer in peers}

    async def _can_allocate(self) -> bool:
        """Healthy, every running peer listed, and their metrics known: no peer is chosen without.

        Peers that were not started yet are not waited for."""
        wanted = [self.id, *(other.id for other in self._others if other.is_running)]
        try:
            if (await ask("GET", self.url + "/health"))[0] != 204:
                return False
            answers = [await self._ask("/peers")]
            for metric in METRICS:
                answers.append(await self._ask(f"/monitor/metrics/{metric}"))
        except aiohttp.ClientError:
            return False
        return all(
            status == 200 and '"peer' in text and all(peer in text for peer in wanted)
            for status, text in answers
        )

    async def _ask(self, path: str) -> tuple[int, str]:
        return await ask("GET", self.url + path, headers=self.credentials)


def _loopback() -> str:
    return f"/ip4/127.0.0.1/tcp/{free_port()}"


@asynccontextmanager
async def running_cluster(
    directory: Path, kubo: Kubo, *, batch_age: float | None = None, datastore: str = "pebble"
) -> AsyncIterator[Cluster]:
    """A cluster of one peer before *kubo*, whose files and log are in *directory*."""
    cluster = Cluster(directory, kubo, batch_age=batch_age, datastore=datastore)
    await cluster.create()
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def running_clusters(
    directory: Path,
    kubos: Sequence[Kubo],
    *,
    batch_age: float | None = None,
    pin_timeout: float = 5.0,
    datastore: str = "pebble",
) -> AsyncIterator[Sequence[Cluster]]:
    """The peers of one cluster, each before one of *kubos* and all known to each other."""
    secret = secrets.token_hex(32)
    peers = [
        Cluster(
            directory / f"cluster{number}",
            kubo,
            name=f"peer{number}",
            secret=secret,
            batch_age=batch_age,
            pin_timeout=pin_timeout,
            datastore=datastore,
        )
        for number, kubo in enumerate(kubos)
    ]
    await asyncio.gather(*(peer.create() for peer in peers))
    for peer in peers:
        peer.meet(peers)
    try:
        await start_all(peers)
        yield tuple(peers)
    finally:
        await asyncio.gather(*(peer.stop() for peer in peers))


async def start_all(peers: Sequence[Cluster]) -> None:
    """Start the *peers* of one cluster; return once every one of them can allocate to all."""
    await asyncio.gather(*(peer.start() for peer in peers))
    await asyncio.gather(*(peer.until_complete() for peer in peers))


async def wipe(peers: Sequence[Cluster]) -> None:
    """Let a whole cluster lose its pinset, as when its state was deleted; it runs on."""
    await asyncio.gather(*(peer.stop() for peer in peers))
    for peer in peers:
        peer.forget_state()
    await start_all(peers)
