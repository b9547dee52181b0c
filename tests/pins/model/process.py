"""One process of the service, without its edge: the real ledger, rules and loops over one file.

Ends in order, or as if killed: then nothing of it is asked to tidy up. What happens to it is left
to machine.py."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from content_gateway.denylist.denylist import Denylist
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.model.cid import Cid
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync
from tests.ledgers import Clock
from tests.pins.model.adapted import AdaptedCluster
from tests.pins.model.cluster import SimulatedCluster
from tests.pins.model.points import Crashed, Deeds, Points
from tests.pins.model.ports import (
    Calls,
    WatchedBackend,
    WatchedContents,
    WatchedLedger,
    WatchedResyncs,
)
from tests.pins.model.promises import Promises

Cluster = SimulatedCluster | AdaptedCluster
POLICY: Final = ReconcilePolicy(workers=4, batch=3, lease=30.0, longest_queue_wait=0.0)


class World:
    """What all processes share: the file, the clock, the cluster, the model."""

    def __init__(self, path: Path, clock: Clock, cluster: Cluster, grace: float) -> None:
        self.path = path
        self.rows = sqlite3.connect(path, isolation_level=None)  # for whoever checks
        self.grace = grace
        self.clock = clock
        self.cluster = cluster
        self.cluster.meanwhile = self._meanwhile
        self.model = Promises(self.clock, grace)
        self.calls = Calls(self.clock, self.model)
        self.deeds = Deeds()
        self.passed: Counter[str] = Counter()
        self.crashed: Counter[str] = Counter()

    async def _meanwhile(self, what: str, cid: Cid) -> None:
        await self.calls.meanwhile(what, cid)


class Process:
    """An open process."""

    def __init__(self, world: World) -> None:
        self.points = Points(world.deeds, world.passed, world.crashed)
        self._database = LedgerDatabase(world.path)
        ledger = SqlitePins(self._database, grace=world.grace, clock=world.clock)
        contents = SqliteWorkQueue(self._database, clock=world.clock)
        resyncs = SqliteResyncs(self._database, clock=world.clock)
        self.contents = WatchedContents(contents, self.points, world.model, world.clock, world.rows)
        backend = WatchedBackend(world.cluster, self.points, self.contents, world.calls)
        queue = world.cluster if isinstance(world.cluster, AdaptedCluster) else None
        self.reconciler = Reconciler(
            self.contents, backend, policy=POLICY, queue=queue, clock=world.clock
        )
        self.resync = Resync(
            WatchedResyncs(resyncs, self.points),
            backend,
            wake=self.reconciler.wake,
            clock=world.clock,
        )
        self.pinning = Pinning(
            WatchedLedger(ledger, self.points, world.model),
            denylist=Denylist(None, None),
            wake=self.reconciler.wake,
        )

    async def open(self) -> None:
        """Open the file."""
        await self._database.__aenter__()

    async def stop(self) -> None:
        """End in order: leases are given up."""
        with suppress(Crashed):
            await self.resync.close()
            await self.reconciler.close()
        await self.kill()

    async def kill(self) -> None:
        """End at once: nothing more is said to anybody."""
        self.points.is_dead = True
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._database.__aexit__()
