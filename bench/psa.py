"""Pins by the Pinning Service API, beside a real cluster's own APIs in the same run.

Sixty-four clients, each with one request at a time, hand over contents that nobody has pinned: to
the cluster's REST API, to the Pinning Service API that it has itself, and to ours before it. They
take turns, and each begins when the cluster is done with what the others sent."""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.process import running
from tests.waiting import eventually
from tests.world.cluster import Cluster, running_clusters
from tests.world.kubo import Kubo, running_kubos

CLIENTS: Final = 64
PINS: Final = 640
ROUNDS: Final = 3


@dataclass(frozen=True)
class Rates:
    """Pins a second that were taken, in the median of the rounds; *ratio* is ours as a part of the
    faster of the cluster's own."""

    rest: float
    psa: float
    ours: float
    ratio: float


async def rates(folder: Path) -> Rates:
    """The three rates, with three peers of a cluster and a Kubo for each."""
    async with (
        running_kubos(folder / "kubos", 3) as kubos,
        running_clusters(folder, kubos) as peers,
        running("serve", folder / "gateway", _settings(peers)) as gateway,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        def by_rest(cid: str) -> Any:
            return session.post(f"{peers[0].url}/pins/{cid}", headers=peers[0].credentials)

        def by_its_psa(cid: str) -> Any:
            return session.post(f"{peers[0].psa_url}/pins", json={"cid": cid})

        def by_ours(cid: str) -> Any:
            key = {"Authorization": "Bearer bench"}
            return session.post(f"{gateway.url}/psa/pins", json={"cid": cid}, headers=key)

        found = [
            [await _rate(kubos[0], post) for post in (by_rest, by_its_psa, by_ours)]
            for _ in range(ROUNDS)
        ]
    theirs, own, mine = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = statistics.median(ours / max(rest, psa) for rest, psa, ours in found)
    return Rates(theirs, own, mine, ratio)


def _settings(peers: Sequence[Cluster]) -> dict[str, str]:
    urls = ",".join(f'"{peer.url}"' for peer in peers)
    settings = {
        "PINS__BACKEND": "ipfs-cluster",
        "IPFS_CLUSTER__URLS": f"[{urls}]",
        "IPFS_CLUSTER__USERNAME": peers[0].username,
        "IPFS_CLUSTER__PASSWORD": peers[0].password,
        "IPFS_CLUSTER__BATCH_AGE": "1",
        "KEYS__MODE": "open",
    }
    return {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}


async def _rate(kubo: Kubo, post: Any) -> float:
    """Pins a second, of blocks that *kubo* has."""
    blocks = [os.urandom(32) for _ in range(PINS)]
    left: list[str] = []
    for start in range(0, PINS, CLIENTS):
        left += await asyncio.gather(*map(kubo.add_raw, blocks[start : start + CLIENTS]))
    cids = set(left)

    async def client() -> None:
        while left:
            async with post(left.pop()) as response:
                body = await response.read()
                assert response.status in (200, 202), body

    async def are_pinned() -> bool:
        return cids <= await kubo.pins()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    seconds = time.perf_counter() - begun
    await eventually(are_pinned, what="all is pinned", seconds=120)
    return PINS / seconds
