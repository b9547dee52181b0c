"""The part of the composition root that keeps pins: ledger, backend, reconciler and sweep.

Opens and closes on the stack of app.py, and decides nothing that a part could."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.backends.embedded.wantlist import DagLimits
from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.denylist.denylist import Denylist
from content_gateway.ipld.block import refusal
from content_gateway.ledger.backend_health import SqliteBackendHealth
from content_gateway.ledger.contents import SqliteContents
from content_gateway.ledger.pins import SqliteLedger
from content_gateway.ledger.resyncs import SqliteResyncs
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from content_gateway.net.origin_guard import OriginGuard
from content_gateway.pins.delegates import Delegates
from content_gateway.pins.origins import OriginRules
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync, ResyncSchedule
from content_gateway.pins.rules import ReconcilePolicy
from content_gateway.settings.model import Settings
from content_gateway.sqlite.database import Database

# docs/facts/pins.md, What questions cost: a cluster is well served with 20 to 50 wishes at a time.
# With fewer, each takes it twice the CPU (measured): others are looked at and written down
# meanwhile. So many are for one requestor, and half as many more for the others.
CLUSTER_SENDS: Final = 50
CLUSTER_WORKERS: Final = 2 * CLUSTER_SENDS
CLUSTER_GATHER: Final = 0.1  # seconds between leases, where many are tended
KUBO_WORKERS: Final = 16
# Of its own: names never wait behind pins. A pin has time, and does not fail for want of a turn.
CONNECTIONS: Final = PoolLimits(in_all=256, per_server=64, waiting=4096, seconds=60.0)


@dataclass(frozen=True, slots=True)
class WiredPins:
    """The open parts that keep pins; *store* is the embedded one, where that is the backend, and
    *blocks* what it keeps them in."""

    pinning: Pinning
    contents: SqliteContents
    resyncs: SqliteResyncs
    health: SqliteBackendHealth
    reconciler: Reconciler
    resync: Resync
    store: EmbeddedStore | None
    blocks: Blockstore | None
    delegates: Delegates
    origins: OriginRules


async def wire_pins(
    stack: AsyncExitStack,
    settings: Settings,
    database: Database,
    blocking: Denylist,
) -> WiredPins:
    """The promise and its keepers, closed with *stack*."""
    outbound = await stack.enter_async_context(HttpClient(limits=CONNECTIONS))
    store = blocks = None
    if settings.pins.backend == "embedded":
        blocks = await stack.enter_async_context(Blockstore(settings.blocks_path, collects=False))
        guard = OriginGuard(private=settings.pins.private_origins)
        unmanaged = await stack.enter_async_context(HttpClient(guard))
        store = embedded_store(settings, outbound, blocks, blocking, unmanaged)
    backend = store or pin_backend(settings, outbound)
    origins = OriginRules(settings.pins.private_origins)
    ledger = SqliteLedger(database, grace=settings.pins.unpin_grace)
    contents = SqliteContents(database, grace=settings.pins.unpin_grace)
    resyncs, health = SqliteResyncs(database), SqliteBackendHealth(database)
    reconciler = Reconciler(
        contents,
        backend,
        policy=reconcile_policy(settings),
        health=health,
        queue=backend if isinstance(backend, IpfsCluster) else None,
        origins=lambda cid: origins.usable(ledger.origins(cid)),
        returned=lambda: resync.trigger(),  # noqa: PLW0108 - each of the two wakes the other
    )
    stack.push_async_callback(reconciler.close)
    schedule = ResyncSchedule.every(settings.pins.resync_interval)
    resync = Resync(resyncs, backend, wake=reconciler.wake, schedule=schedule)
    stack.push_async_callback(resync.close)
    chosen, private = settings.pins.delegates, settings.pins.private_origins
    delegates = Delegates(backend, chosen, private=private)
    stack.push_async_callback(delegates.close)
    # Clusters and Kubo take every kind that a Cid can be; what we verify ourselves is less.
    pinning = Pinning(
        ledger,
        blocking=blocking,
        wake=reconciler.wake,
        refusal=refusal if store else None,
    )
    return WiredPins(
        pinning,
        contents,
        resyncs,
        health,
        reconciler,
        resync,
        store,
        blocks,
        delegates,
        origins,
    )


def reconcile_policy(settings: Settings) -> ReconcilePolicy:
    """How many contents are tended at once, and how long one may take.

    A cluster takes a wish and goes on by itself; the others are at it until it is done."""
    workers = {
        "ipfs-cluster": CLUSTER_WORKERS,
        "kubo": KUBO_WORKERS,
        "embedded": settings.embedded.parallel,
    }
    # Each of the three lanes must have a worker of its own.
    most = max(3, workers[settings.pins.backend])
    policy = ReconcilePolicy(workers=most, longest_attempt_timeout=settings.pins.timeout)
    if settings.pins.backend == "ipfs-cluster":
        # It is done with many together, so that they are looked at together.
        policy = replace(policy, sends=CLUSTER_SENDS, gather_many=CLUSTER_GATHER)
    return policy


def pin_backend(settings: Settings, outbound: HttpClient) -> Kubo | IpfsCluster:
    """The configured pin backend, where it is somebody else's server."""
    if settings.pins.backend == "kubo":
        return Kubo(outbound, settings.kubo.url, pin_seconds=settings.pins.timeout)
    cluster = settings.ipfs_cluster
    return IpfsCluster(
        outbound,
        cluster.urls,
        username=cluster.username,
        password=cluster.password,
        token=cluster.token,
        jwt=cluster.jwt,
        replication_min=settings.pins.replication_min,
        replication_max=settings.pins.replication_max,
        seconds=cluster.timeout,
        batch_age=cluster.batch_age,
        workers=cluster.concurrent_pins,
    )


def embedded_store(
    settings: Settings,
    outbound: HttpClient,
    blocks: Blockstore,
    blocking: Denylist,
    unmanaged: HttpClient | None = None,
) -> EmbeddedStore:
    """The embedded store over *blocks*; *unmanaged* is the client that reaches origins."""
    chosen = settings.embedded
    limits = DagLimits(chosen.max_blocks, chosen.max_bytes, chosen.max_depth)
    gateways = TrustlessGateways(
        outbound,
        chosen.gateways,
        seconds=chosen.timeout,
        stream_seconds=settings.pins.timeout,
    )
    return EmbeddedStore(
        blocks, gateways, limits=limits, checker=blocking.checker, strangers=unmanaged
    )
