"""A cluster that has lost what it held: all of its pinset, or content of one of its nodes.

The cluster is the miniature, whose nodes can bring in whatever they are asked for. The ledger is
filled by its own statements where many pins are wanted."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic, time
from typing import Final

from content_gateway.api_keys import OpenKeys
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import running_servers
from tests.faults.asking import ask_all, session
from tests.faults.ground import Ground
from tests.faults.row import Figure, Size
from tests.http.held import Everything
from tests.ledgers import cid
from tests.waiting import until

_MANY: Final = {"full": 100_000, "short": 500}
_INTERVAL: Final = 10.0
_SLACK: Final = 3.0  # seconds to walk the pinset, and to bring it in again
_POLL: Final = 0.02  # seconds between two looks of requestors
_HELD: Final = 30
_LOST: Final = 10


@asynccontextmanager
async def cluster(peers: int) -> AsyncIterator[tuple[MiniCluster, dict[str, str]]]:
    """A cluster of so many peers, and the settings of a service before it."""
    mini = MiniCluster(peers, clock=time)
    mini.supply = Everything()
    async with running_servers(MiniRest(mini)):
        yield (
            mini,
            {
                "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
                "CONTENT_GATEWAY_PINS__UNPIN_GRACE": "0",
                "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": json.dumps([peer.url for peer in mini.peers]),
                "CONTENT_GATEWAY_IPFS_CLUSTER__BATCH_AGE": "0",
            },
        )


async def a_wiped_cluster(ground: Ground, size: Size) -> Figure:
    """All is final in the ledger, and the cluster that the service then finds is empty."""
    number = _MANY[size]
    async with cluster(1) as (mini, settings):
        async with ground.serving(settings):
            pass  # it makes the tables
        wanted = [str(cid(each)) for each in range(number)]
        await asyncio.to_thread(ground.rows.hold_final, OpenKeys().remembered("me").id, wanted)
        (peer,) = mini.peers
        async with ground.serving(settings):
            begun = monotonic()
            await until(lambda: len(peer.state) >= number, seconds=1_400)
            seconds = monotonic() - begun
        again = len(set(peer.state) & set(wanted))
    return Figure(f"{again:,} of {number:,} asked for again, in {seconds:.0f} s", again == number)


async def lost_content(ground: Ground, size: Size) -> Figure:
    """One node of three loses ten contents, and nobody tells the cluster.

    Repaired is what the node has again, once its requestors read that all replicas are there. That
    the ledger still has it due, to be looked at once more after the batch age of the request that
    repaired it, is the reconciler's own care."""
    async with cluster(3) as (mini, settings):
        settings["CONTENT_GATEWAY_PINS__RESYNC_INTERVAL"] = str(_INTERVAL)
        async with ground.serving(settings) as service, session() as asking:
            wanted = [str(cid(each)) for each in range(_HELD)]
            adds = [f"{service.url}/ipfs/pin/add/{one}" for one in wanted]
            assert {answer.status for answer in await ask_all(asking, "POST", adds)} == {200}
            await until(lambda: ground.rows.unsettled() == 0)
            lost, node = wanted[:_LOST], mini.peers[1]
            for one in lost:
                mini.lose(node, one)
            begun, told = monotonic(), 0.0
            urls = [f"{service.url}/ipfs/pin/status/{one}" for one in lost]
            is_shown_whole = True
            while not (told and is_shown_whole and node.pinned.issuperset(lost)):
                assert monotonic() - begun < 10 * _INTERVAL, "it is not told and repaired"
                await asyncio.sleep(_POLL)
                answers = await ask_all(asking, "GET", urls)
                replicas = [json.loads(answer.body)["result"]["replicas"] for answer in answers]
                is_shown_whole = all(one["pinned"] >= one["wanted"] for one in replicas)
                if not told and not is_shown_whole:
                    told = monotonic() - begun
            seconds = monotonic() - begun
    return Figure(
        f"{_LOST} replicas, an interval of {_INTERVAL:.0f} s: told after {told:.1f} s, repaired,"
        f" and told so, after {seconds:.1f} s",
        seconds <= _INTERVAL + _SLACK,
    )
