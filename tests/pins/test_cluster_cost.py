"""What the reconciler asks of a cluster for a pin: counted, in a miniature that counts it by kind.

Each question costs the operator's peers CPU that is then missing for pinning (facts-pins section
11). What it costs a real cluster is weighed in tests/real/test_cluster_cost.py."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from content_gateway.app_pins import CLUSTER_SENDS, CLUSTER_WORKERS
from content_gateway.content.cid import Cid
from content_gateway.content.holdings import ContentState
from content_gateway.content.pins import NO_LABEL
from content_gateway.ipfs.ipfs_cluster import IpfsCluster
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.tending import Policy
from content_gateway.storage.contents import SqliteContents
from content_gateway.storage.ledger import SqliteLedger
from tests.fakes.cluster import MiniCluster, MiniPin
from tests.fakes.cluster_wire import Wire
from tests.ledgers import Clock
from tests.pins.promises import raw

QUESTIONS = ("allocation", "allocations", "status", "statuses", "listing", "peers")


class Fed:
    """A ledger, a reconciler, and a miniature cluster on the same clock; *wire* counts."""

    def __init__(
        self, ledger: SqliteLedger, contents: SqliteContents, clock: Clock, batch_age: float
    ) -> None:
        self.cluster = MiniCluster(3, clock=clock, batch_age=batch_age)
        self.cluster.pin_seconds, self.cluster.spread_seconds = 2.0, 0.5
        self.wire = Wire(self.cluster)
        self.contents, self.clock = contents, clock
        self._ledger = ledger
        self._backend = IpfsCluster(
            self.wire, self.wire.urls, batch_age=batch_age, seconds=3.0, clock=clock
        )
        policy = replace(Policy(), workers=CLUSTER_WORKERS, sends=CLUSTER_SENDS)
        self._reconciler = Reconciler(contents, self._backend, policy=policy, clock=clock)

    async def promise(self, cids: Sequence[Cid]) -> None:
        """A requestor pins them all, and somebody has them."""
        for cid in cids:
            self.cluster.provide(cid, b"")
        await asyncio.gather(*(self._ledger.add("a", cid, str(cid), NO_LABEL) for cid in cids))

    async def until_settled(self) -> None:
        """Tend everything until nothing is left to do."""
        while (await self.contents.backlog(_at(self.clock))).by_state:
            if not await self._reconciler.round():
                self.clock.now += 0.25

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


@pytest.fixture
def fed(ledger: SqliteLedger, contents: SqliteContents, clock: Clock) -> Fed:
    return Fed(ledger, contents, clock, 10.0)


async def test_a_new_pin_takes_one_status_and_no_allocation_of_its_own(fed: Fed) -> None:
    """Four hundred of them: each is sent once, asked for at every peer once or twice, and its
    allocation is read from a listing that answers for many."""
    cids = [raw(b"fed %d" % number) for number in range(400)]
    await fed.promise(cids)
    await fed.until_settled()
    counts = fed.wire.rest.counts
    print(f"{fed.questions} questions, {fed.statuses} CIDs of status: {counts}")
    assert await fed.contents.counts() == {ContentState.PINNED: len(cids)}
    assert counts["pin"] == len(cids)
    assert fed.statuses <= 1.5 * len(cids)
    assert counts["allocation"] <= 0.5 * len(cids)
    assert fed.questions <= 0.5 * len(cids)


async def test_no_peer_is_asked_about_what_was_never_sent(fed: Fed) -> None:
    """Whether it is in the pinset is read from one peer's memory."""
    cids = [raw(b"new %d" % number) for number in range(30)]
    await fed.promise(cids)
    fed.cluster.refusal = "busy"  # nothing can be sent
    for _ in range(5):
        await fed._reconciler.round()
    assert fed.statuses == 0


async def test_an_import_of_what_the_cluster_holds_takes_a_question_for_fifty(fed: Fed) -> None:
    """Two thousand pins that are there already: nothing is sent, and listings answer for most."""
    cids = [raw(b"held %d" % number) for number in range(2_000)]
    for cid in cids:
        fed.cluster.provide(cid, b"")
        fed.cluster.pin(fed.cluster.peers[0], MiniPin(str(cid), -1, -1))
    for _ in range(2):  # the batch closes, and peers fetch what they hear of
        fed.clock.now += 100.0
        fed.cluster.catch_up()
    await fed.promise(cids)
    await fed.until_settled()
    print(f"{fed.questions} questions: {fed.wire.rest.counts}")
    assert await fed.contents.counts() == {ContentState.PINNED: len(cids)}
    assert fed.wire.rest.writes == []
    assert fed.questions <= len(cids) / 50
