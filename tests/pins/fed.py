"""A miniature cluster that is fed from a ledger by the real reconciler, on one clock."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from content_gateway.app_pins import CLUSTER_SENDS, CLUSTER_WORKERS
from content_gateway.content.cid import Cid
from content_gateway.content.holdings import SweepReport
from content_gateway.content.pins import NO_LABEL, PinStatus
from content_gateway.ipfs.ipfs_cluster import IpfsCluster
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.sweep import Sweeper
from content_gateway.pins.tending import Policy
from content_gateway.storage.contents import SqliteContents
from content_gateway.storage.ledger import SqliteLedger
from content_gateway.storage.sqlite import Database
from content_gateway.storage.sweeps import SqliteSweeps
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_wire import Wire
from tests.ledgers import Clock

AT_ONCE = 500
QUESTIONS = ("allocation", "allocations", "status", "statuses", "listing", "peers")


class Fed:
    """A ledger, a reconciler, and a miniature cluster on the same clock; *wire* counts."""

    def __init__(self, database: Database, clock: Clock, batch_age: float, **options: Any) -> None:
        self.cluster = MiniCluster(3, clock=clock, batch_age=batch_age)
        self.cluster.pin_seconds, self.cluster.spread_seconds = 2.0, 0.5
        self.wire = Wire(self.cluster)
        self.contents, self.clock = SqliteContents(database, clock=clock), clock
        self.ledger = SqliteLedger(database, grace=0.0, clock=clock)
        self._backend = IpfsCluster(
            self.wire, self.wire.urls, batch_age=batch_age, seconds=3.0, clock=clock, **options
        )
        policy = replace(Policy(), workers=CLUSTER_WORKERS, sends=CLUSTER_SENDS)
        self.reconciler = Reconciler(self.contents, self._backend, policy=policy, clock=clock)
        sweeps = SqliteSweeps(database, clock=clock)
        self.sweeper = Sweeper(sweeps, self._backend, wake=self.reconciler.wake, clock=clock)

    async def promise(self, cids: Sequence[Cid]) -> None:
        """A requestor pins them all, and somebody has them."""
        for cid in cids:
            self.cluster.provide(cid, b"")
        for start in range(0, len(cids), AT_ONCE):  # more writes than that may not wait
            some = cids[start : start + AT_ONCE]
            await asyncio.gather(*(self.ledger.add("a", cid, str(cid), NO_LABEL) for cid in some))

    async def until_settled(self) -> None:
        """Tend everything until nothing is left to do."""
        while (await self.contents.backlog(_at(self.clock))).by_state:
            if not await self.reconciler.round():
                self.clock.now += 0.25

    def status(self, cid: Cid) -> PinStatus:
        """What the requestor is told."""
        status = self.ledger.status("a", cid)
        assert status is not None
        return status

    async def sweep(self) -> SweepReport:
        """Compare the ledger with the cluster."""
        report = await self.sweeper.now()
        assert report is not None
        return report

    @property
    def questions(self) -> int:
        """HTTP requests that change nothing."""
        return sum(self.wire.rest.counts[kind] for kind in QUESTIONS)

    @property
    def statuses(self) -> int:
        """How often a CID was asked for at every peer."""
        return sum(times for (kind, _), times in self.wire.rest.asked.items() if kind == "statuses")


def _at(clock: Callable[[], float]) -> datetime:
    return datetime.fromtimestamp(clock(), UTC)
