"""What the reconciler asks of a cluster for a pin: counted, in a miniature that counts it by kind.

Each question costs the operator's peers CPU that is then missing for pinning (docs/facts/pins.md,
11). What it costs a real cluster is weighed in tests/real/test_cluster_cost.py. CLUSTER_IMPORT_PINS
says how many pins are imported that the cluster holds already."""

import os

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.content_state import ContentState
from tests.fakes.cluster import MiniPin
from tests.ledgers import Clock
from tests.pins.fed import Fed
from tests.pins.promises import raw

HELD = int(os.environ.get("CLUSTER_IMPORT_PINS", "2000"))


@pytest.fixture
def fed(database: LedgerDatabase, clock: Clock) -> Fed:
    return Fed(database, clock, 10.0)


async def test_a_new_pin_takes_one_status_and_no_allocation_of_its_own(fed: Fed) -> None:
    """Four hundred of them: each is sent once, asked for at every peer once or twice, and its
    allocation is read from a listing that answers for many."""
    cids = [raw(b"fed %d" % number) for number in range(400)]
    await fed.promise(cids)
    await fed.until_final()
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
        await fed.reconciler.round()
    assert fed.statuses == 0


async def test_an_import_of_what_the_cluster_holds_takes_a_question_for_fifty(fed: Fed) -> None:
    """Thousands of pins that are there already: nothing is sent, and listings answer for most."""
    cids = [raw(b"held %d" % number) for number in range(HELD)]
    for cid in cids:
        fed.cluster.provide(cid, b"")
        fed.cluster.pin(fed.cluster.peers[0], MiniPin(str(cid), -1, -1))
    fed.cluster.concurrent_pins = HELD
    for _ in range(3):  # the batch closes, and peers fetch what they hear of
        fed.clock.now += 100.0
        fed.cluster.catch_up()
    await fed.promise(cids)
    await fed.until_final()
    print(f"{fed.questions} questions: {fed.wire.rest.counts}")
    assert await fed.contents.counts() == {ContentState.PINNED: len(cids)}
    assert fed.wire.rest.writes == []
    assert fed.questions <= len(cids) / 50


def wanted(fed: Fed) -> set[str]:
    """The pinset, as the first peer has it."""
    fed.cluster.catch_up()
    return set(fed.cluster.peers[0].state)


async def test_a_listing_says_nothing_of_what_was_promised_after_it(fed: Fed) -> None:
    """A pin that goes and comes back is sent again, though a listing from before still has it."""
    cids = [raw(b"held %d" % number) for number in range(400)]
    await fed.promise(cids)
    await fed.until_final()
    gone = cids[7]
    await fed.ledger.remove("a", gone, None)
    await fed.until_final()
    assert str(gone) not in wanted(fed)
    await fed.promise([gone])
    await fed.until_final()
    assert str(gone) in wanted(fed)
