"""A miniature cluster and the real reconciler of a ledger, on one clock."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, ResyncReport
from content_gateway.model.pins import NO_LABEL, PinStatus
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync
from content_gateway.wiring.backends import CLUSTER_REQUESTS, CLUSTER_WORKERS
from tests.fakes.cluster import MiniCluster
from tests.fakes.cluster_wire import Wire
from tests.ledgers import Clock

AT_ONCE = 500
QUESTIONS = ("allocation", "allocations", "status", "statuses", "listing", "peers")


class Fed:
    """A ledger, a reconciler, and a miniature cluster on the same clock; *wire* counts."""

    def __init__(
        self,
        database: LedgerDatabase,
        clock: Clock,
        batch_age: float,
        **options: Any,
    ) -> None:
        self.cluster = MiniCluster(3, clock=clock, batch_age=batch_age)
        self.cluster.pin_seconds, self.cluster.spread_seconds = 0.25, 0.1
        self.wire = Wire(self.cluster)
        self.contents, self.clock = SqliteWorkQueue(database, clock=clock), clock
        self.ledger = SqlitePins(database, grace=0.0, clock=clock)
        self._backend = IpfsCluster(
            self.wire, self.wire.urls, batch_age=batch_age, seconds=3.0, clock=clock, **options
        )
        self.reconciler = self.another_process()
        resyncs = SqliteResyncs(database, clock=clock)
        self.resyncing = Resync(resyncs, self._backend, wake=self.reconciler.wake, clock=clock)

    def another_process(self) -> Reconciler:
        # A round ends with its batches: none of them waits for a clock that stands still.
        policy = ReconcilePolicy(
            workers=CLUSTER_WORKERS, sends=CLUSTER_REQUESTS, longest_queue_wait=0.0
        )
        return Reconciler(
            self.contents, self._backend, policy=policy, queue=self._backend, clock=self.clock
        )

    async def promise(self, cids: Sequence[Cid]) -> None:
        """A requestor pins them all, and somebody has them."""
        for cid in cids:
            self.cluster.provide(cid, b"")
        await self.ask_for("a", cids)

    async def ask_for(self, who: str, cids: Sequence[Cid]) -> None:
        """The requestor *who* pins them all, whoever has them."""
        for start in range(0, len(cids), AT_ONCE):  # more writes than that may not wait
            batch = cids[start : start + AT_ONCE]
            await asyncio.gather(*(self.ledger.add(who, cid, str(cid), NO_LABEL) for cid in batch))

    async def until_final(self) -> None:
        """Reconcile everything until nothing is left to do."""
        while (await self.contents.backlog(_at(self.clock))).by_state:
            if not await self.reconciler.round():
                self.clock.now += 0.25

    async def is_waiting(self, who: str, cid: Cid) -> bool:
        """Whether *who* is not told that it is pinned."""
        status = await self.ledger.status(who, cid)
        return status is None or status.state is not ContentState.PINNED

    async def status(self, cid: Cid) -> PinStatus:
        status = await self.ledger.status("a", cid)
        assert status is not None
        return status

    async def resync(self) -> ResyncReport:
        report = await self.resyncing.now()
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
