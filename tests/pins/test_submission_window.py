"""What one requestor has in a cluster's own queue keeps nobody else's pins waiting there.

The miniature is at ten pins at a time, each for as long as a real cluster waits for one that nobody
has. Seconds are those of its clock; a real cluster is fed so in tests/real/test_cluster_fair.py."""

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from tests.ledgers import Clock
from tests.pins.fed import Fed
from tests.pins.promises import raw

HANGING = [raw(b"hanging %d" % number) for number in range(500)]
MOST_SECONDS = 60.0


@pytest.fixture
def fed(database: LedgerDatabase, clock: Clock) -> Fed:
    fed = Fed(database, clock, 0.0)
    fed.cluster.pin_timeout = 120.0
    return fed


async def pass_time(fed: Fed, seconds: float, step: float = 0.05) -> None:
    """Reconcile what is due for so long."""
    until = fed.clock.now + seconds
    while fed.clock.now < until:
        await fed.reconciler.round()
        fed.clock.now += step


async def seconds_to_pin(fed: Fed, who: str, cid: Cid) -> float:
    """How long *who* waits for *cid*, at most a minute."""
    fed.cluster.provide(cid, b"")
    began = fed.clock.now
    await fed.ask_for(who, [cid])
    while fed.clock.now < began + MOST_SECONDS:
        if not await fed.is_waiting(who, cid):
            break
        await pass_time(fed, 0.05)
    return fed.clock.now - began


async def test_what_hangs_in_a_cluster_leaves_workers_to_others(fed: Fed) -> None:
    """Five hundred that nobody has, of one requestor: another one's pins take at most three times
    what they take alone, at once and whenever the first one's come round again."""
    alone = [await seconds_to_pin(fed, "b", raw(b"alone %d" % each)) for each in range(10)]
    await fed.ask_for("a", HANGING)
    await pass_time(fed, 1.0)
    beside = []
    for each in range(15):
        beside.append(await seconds_to_pin(fed, "b", raw(b"beside %d" % each)))
        await pass_time(fed, 1.0)
    print(
        f"alone {max(alone):.2f} s at most, beside {sorted(beside)[len(beside) // 2]:.2f} s in"
        f" the middle and {max(beside):.2f} s at most; {fed.wire.rest.counts}"
    )
    assert max(beside) <= 3 * max(alone)


async def test_a_newcomer_waits_until_what_hangs_is_taken_back(fed: Fed) -> None:
    """Who has been alone is not limited: it takes a moment to make room for somebody else, and
    from then on there is room."""
    await fed.ask_for("a", HANGING)
    await pass_time(fed, 300.0, 0.5)
    assert fed.wire.rest.counts["pin"] == len(HANGING)
    assert not fed.wire.rest.counts["unpin"]
    taken = [await seconds_to_pin(fed, "b", raw(b"new %d" % each)) for each in range(10)]
    print(f"at first {taken[0]:.2f} s, then {max(taken[1:]):.2f} s at most")
    assert taken[0] <= 15.0
    assert max(taken[1:]) <= 5.0


async def test_another_process_makes_room(fed: Fed) -> None:
    """It hears from the ledger that somebody else has come, whose pins it does not reconcile."""
    await fed.ask_for("a", HANGING)
    await pass_time(fed, 60.0, 0.5)
    other = fed.another_process()
    fed.cluster.provide(raw(b"new"), b"")
    began = fed.clock.now
    await fed.ask_for("b", [raw(b"new")])
    while await fed.is_waiting("b", raw(b"new")) and fed.clock.now < began + MOST_SECONDS:
        await other.round()
        await pass_time(fed, 0.05)
    assert fed.clock.now - began <= 15.0


async def test_a_node_that_is_down_limits_nobody(fed: Fed) -> None:
    """What hangs at one node of three is held by the others: it stays there, and more is sent."""
    await seconds_to_pin(fed, "b", raw(b"another"))
    fed.cluster.peers[2].is_hung = True
    cids = [raw(b"bulk %d" % number) for number in range(400)]
    await fed.promise(cids)
    for _ in range(10):  # before any peer gives anything up
        await pass_time(fed, 10.0, 0.25)
        if fed.wire.rest.counts["pin"] > len(cids):
            break
    assert fed.wire.rest.counts["pin"] == 1 + len(cids)
    assert not fed.wire.rest.counts["unpin"]


async def test_a_batch_that_is_full_of_what_hangs_costs_another_one(
    database: LedgerDatabase, clock: Clock
) -> None:
    """What hangs is seen when its batch is closed, and is out of the pinset with the next."""
    fed = Fed(database, clock, 60.0)
    fed.cluster.pin_timeout = 120.0
    await fed.ask_for("b", [raw(b"another")])
    await fed.ask_for("a", HANGING[:100])
    await pass_time(fed, 61.0, 1.0)
    cid = raw(b"beside")
    fed.cluster.provide(cid, b"")
    await fed.ask_for("b", [cid])
    until = clock.now + 3 * 61.0
    while clock.now < until and not fed.cluster.keeps(cid):
        await pass_time(fed, 1.0, 0.5)
    assert fed.cluster.keeps(cid)


async def test_one_requestor_alone_is_not_limited(fed: Fed) -> None:
    """Everything is sent at once, and the cluster is not asked for what it has in hand."""
    cids = [raw(b"bulk %d" % number) for number in range(400)]
    await fed.promise(cids)
    await pass_time(fed, 1.0)
    assert fed.wire.rest.counts["pin"] == len(cids)
    await fed.until_final()
    assert await fed.contents.counts() == {ContentState.PINNED: len(cids)}


async def test_what_somebody_has_is_not_held_up_behind_what_nobody_has(fed: Fed) -> None:
    """Of one requestor, too: what hangs is taken back, and tried again with a part of its room."""
    good = [raw(b"mixed %d" % number) for number in range(40)]
    for cid in good:
        fed.cluster.provide(cid, b"")
    await seconds_to_pin(fed, "b", raw(b"another"))
    await fed.ask_for("a", [*HANGING[:40], *good])
    await pass_time(fed, 150.0, 0.25)
    states = [await fed.ledger.status("a", cid) for cid in good]
    assert [each.state for each in states if each] == [ContentState.PINNED] * len(good)
    assert fed.wire.rest.counts["unpin"] > 0
    for cid in HANGING[:40]:  # at last somebody has them
        fed.cluster.provide(cid, b"")
    await pass_time(fed, 400.0, 1.0)
    assert await fed.contents.counts() == {ContentState.PINNED: 81}


async def test_what_a_cluster_has_forgotten_is_no_retry(
    database: LedgerDatabase, clock: Clock
) -> None:
    """Its peers die again and again with what they had not committed. When they stay, all of it is
    there within a minute: nothing of it has hung anywhere, so that it has room like new pins."""
    fed = Fed(database, clock, 1.0)
    fed.cluster.pin_seconds = 0.0
    for who in ("a", "b"):
        cids = [raw(f"{who} {number}".encode()) for number in range(200)]
        for cid in cids:
            fed.cluster.provide(cid, b"")
        await fed.ask_for(who, cids)
    for _ in range(40):
        await pass_time(fed, 1.7, 0.1)
        for peer in fed.cluster.peers:
            fed.cluster.kill(peer)
        await pass_time(fed, 0.1, 0.1)
        for peer in fed.cluster.peers:
            fed.cluster.start(peer)
    await pass_time(fed, 60.0, 0.1)
    assert await fed.contents.counts() == {ContentState.PINNED: 400}
