"""The registry of pin backends: how each of them is opened, and how it is best worked with.

Knows every value of `pins.backend`; one without a case here does not type-check. A new backend is
a room in `backends/`, a value and a group of settings, and a case. Backends that are imported where
they are opened cost the start of the others nothing (23 ms)."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Protocol, assert_never

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits
from content_gateway.denylist.denylist import Denylist
from content_gateway.ipld.block import refusal
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import OriginGuard
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.delegates import Addressed
from content_gateway.pins.queue_watch import BackendQueue
from content_gateway.settings.model import Settings

# docs/facts/pins.md, What questions cost: a cluster is well served with 20 to 50 requests at a
# time. With fewer, each takes it twice the CPU (measured): the status of others is read and
# recorded meanwhile. So many are for one requestor, and half as many more for the others.
CLUSTER_REQUESTS: Final = 50
CLUSTER_WORKERS: Final = 2 * CLUSTER_REQUESTS
CLUSTER_GATHER: Final = (
    0.1  # seconds between leases, where there are many: their status is one call
)
KUBO_WORKERS: Final = 16
_LEAST_WORKERS: Final = 3  # one for each queue


class Backend(PinBackend, Addressed, Protocol):
    """What every backend is to the reconciler, and to whoever tells its addresses."""


@dataclass(frozen=True, slots=True)
class OpenBackend:
    """An open backend, and the *policy* that suits it.

    *queue* is where it keeps what it was sent, if it does; *refusal* says why it could never hold a
    CID, None where it takes all that a Cid can be. *store* and *blocks* are the embedded one's."""

    backend: Backend
    policy: ReconcilePolicy
    queue: BackendQueue | None = None
    refusal: Callable[[Cid], str | None] | None = None
    store: EmbeddedStore | None = None
    blocks: Blockstore | None = None


async def open_backend(
    stack: AsyncExitStack, settings: Settings, client: HttpClient, denylist: Denylist
) -> OpenBackend:
    """The backend of `pins.backend`, closed with *stack*; raises WrongSettings."""
    match settings.pins.backend:
        case "embedded":
            return await _embedded(stack, settings, client, denylist)
        case "ipfs-cluster":
            return _cluster(settings, client)
        case "kubo":
            from content_gateway.backends.kubo.kubo import Kubo

            kubo = Kubo(client, settings.kubo.url, pin_seconds=settings.pins.timeout)
            return OpenBackend(kubo, _policy(settings, KUBO_WORKERS))
        case unknown:
            assert_never(unknown)


def _policy(settings: Settings, workers: int) -> ReconcilePolicy:
    """That of one process; *workers* are those of all, each of which has its share of them."""
    return ReconcilePolicy(
        workers=max(_LEAST_WORKERS, ceil(workers / settings.workers)),
        longest_attempt_timeout=settings.pins.timeout,
    )


def _cluster(settings: Settings, client: HttpClient) -> OpenBackend:
    """It takes a request and goes on by itself, and is done with many of them together."""
    from content_gateway.backends.cluster.cluster import IpfsCluster

    chosen, pins = settings.ipfs_cluster, settings.pins
    cluster = IpfsCluster(
        client,
        chosen.urls,
        username=chosen.username,
        password=chosen.password,
        token=chosen.token,
        jwt=chosen.jwt,
        replication_min=pins.replication_min,
        replication_max=pins.replication_max,
        seconds=chosen.timeout,
        batch_age=chosen.batch_age,
        workers=chosen.concurrent_pins,
    )
    policy = replace(
        _policy(settings, CLUSTER_WORKERS),
        sends=ceil(CLUSTER_REQUESTS / settings.workers),
        gather_many=CLUSTER_GATHER,
    )
    return OpenBackend(cluster, policy, queue=cluster)


async def _embedded(
    stack: AsyncExitStack, settings: Settings, client: HttpClient, denylist: Denylist
) -> OpenBackend:
    """It keeps what it can verify itself, which is less than what a Cid can be."""
    chosen, pins = settings.embedded, settings.pins
    blocks = await stack.enter_async_context(
        Blockstore(settings.blocks_path, collects=False, is_shared=settings.workers > 1)
    )
    to_origins = await stack.enter_async_context(
        HttpClient(OriginGuard(private=pins.private_origins))
    )
    gateways = TrustlessGateways(
        client, chosen.gateways, seconds=chosen.timeout, stream_seconds=pins.timeout
    )
    limits = DagLimits(chosen.max_blocks, chosen.max_bytes, chosen.max_depth)
    store = EmbeddedStore(
        blocks, gateways, limits=limits, checker=denylist.checker, to_origins=to_origins
    )
    policy = _policy(settings, chosen.parallel)
    return OpenBackend(store, policy, refusal=refusal, store=store, blocks=blocks)
