"""What one requestor has in a cluster's own queue keeps nobody else's pins waiting there.

The miniature is at ten pins at a time, each for as long as a real cluster waits for one that nobody
has. Seconds are those of its clock; a real cluster is fed so in tests/real/test_cluster_fair.py."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from content_gateway.content.cid import Cid
from content_gateway.content.holdings import (
    ContentState,
    Due,
    Holding,
    Outcome,
    Peer,
    Sent,
    Sighting,
)
from content_gateway.pins.tending import Act, Policy, Rules
from content_gateway.pins.window import Windows
from content_gateway.storage.sqlite import Database
from tests.ledgers import Clock
from tests.pins.fed import Fed
from tests.pins.promises import raw

HANGING = [raw(b"hanging %d" % number) for number in range(500)]
MOST_SECONDS = 60.0
PEERS = (Peer("peer0", "pinning"),)


@pytest.fixture
def fed(database: Database, clock: Clock) -> Fed:
    fed = Fed(database, clock, 0.0)
    fed.cluster.pin_timeout = 120.0
    return fed


async def pass_time(fed: Fed, seconds: float, step: float = 0.05) -> None:
    """Tend what is due for so long."""
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
        if not fed.is_waiting(who, cid):
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
    """It hears from the ledger that somebody else has come, whose pins it does not tend."""
    await fed.ask_for("a", HANGING)
    await pass_time(fed, 60.0, 0.5)
    other = fed.another_process()
    fed.cluster.provide(raw(b"new"), b"")
    began = fed.clock.now
    await fed.ask_for("b", [raw(b"new")])
    while fed.is_waiting("b", raw(b"new")) and fed.clock.now < began + MOST_SECONDS:
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
    database: Database, clock: Clock
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
    await fed.until_settled()
    assert await fed.contents.counts() == {ContentState.PINNED: len(cids)}


async def test_what_somebody_has_is_not_held_up_behind_what_nobody_has(fed: Fed) -> None:
    """Of one requestor, too: what hangs is taken back, and tried again with a part of its room."""
    good = [raw(b"mixed %d" % number) for number in range(40)]
    for cid in good:
        fed.cluster.provide(cid, b"")
    await seconds_to_pin(fed, "b", raw(b"another"))
    await fed.ask_for("a", [*HANGING[:40], *good])
    await pass_time(fed, 150.0, 0.25)
    states = [fed.ledger.status("a", cid) for cid in good]
    assert [each.state for each in states if each] == [ContentState.PINNED] * len(good)
    assert fed.wire.rest.counts["unpin"] > 0
    for cid in HANGING[:40]:  # at last somebody has them
        fed.cluster.provide(cid, b"")
    await pass_time(fed, 400.0, 1.0)
    assert await fed.contents.counts() == {ContentState.PINNED: 81}


class Rows:
    """Contents of requestors, under a clock, before a queue of ten."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.windows = Windows(10, Rules(Policy(), 0.0), self.clock)
        self._number = 0
        self.windows.comes(8)
        self.windows.comes(9)  # so that there are others

    def due(self, requestor: int, **known: Any) -> Due:
        self._number += 1
        cid = raw(b"row %d" % self._number)
        return Due(self._number, cid, ContentState.QUEUED, 1, True, requestor=requestor, **known)

    def send_all(self, requestor: int) -> list[Due]:
        """Send as many as may be."""
        sent: list[Due] = []
        while self.windows.may_send(requestor) and len(sent) < 1_000:
            sent.append(self.due(requestor))
            self.windows.sends(sent[-1])
            self.windows.sent(sent[-1])
        return sent

    def judge(self, due: Due, seen: Sighting) -> Act | Outcome:
        """What is to be done about what would be looked at again."""
        return self.windows.judge(due, seen, Outcome(None, 1.0))

    def hear(self, in_hand: Sequence[Due] = (), seconds: float = 1.0) -> list[int]:
        """So many *seconds* later, what the backend still has in hand."""
        self.clock.now += seconds
        return self.windows.heard({str(due.cid): True for due in in_hand})


def test_one_requestor_leaves_workers_to_the_others() -> None:
    """The first one gets two thirds, the next one two thirds of the rest."""
    rows = Rows()
    assert [len(rows.send_all(requestor)) for requestor in (1, 2, 3)] == [7, 2, 1]


def test_what_is_done_soon_earns_room_and_what_hangs_loses_it() -> None:
    """Twice as much for each round, up to a limit; and all of it is gone where nothing moves."""
    rows = Rows()
    sent = []
    for _ in range(8):
        sent.append(len(rows.send_all(1)))
        rows.hear()
    assert sent[:4] == [7, 14, 28, 56]
    assert sent[-1] == sent[-2] == 135
    hanging = rows.send_all(1)
    rows.hear(hanging, 9.0)
    assert not rows.windows.may_send(1)
    rows.hear()
    assert len(rows.send_all(1)) == 7, "it starts anew"


def test_what_is_done_late_costs_room() -> None:
    """Where its own contents wait for each other, a requestor has too many there."""
    rows = Rows()
    for _ in range(3):
        rows.send_all(1)
        rows.hear()
    many = rows.send_all(1)
    rows.hear(many, 5.0)
    rows.hear()
    assert len(rows.send_all(1)) == 7


def test_a_few_at_a_time_do_not_save_up_for_a_flood() -> None:
    """Credit is twice what was made use of, at most."""
    rows = Rows()
    for _ in range(500):
        due = rows.due(1)
        rows.windows.sends(due)
        rows.windows.sent(due)
        rows.hear([due])
        rows.windows.comes(9)
        rows.hear()
    assert len(rows.send_all(1)) == 9


def test_what_hangs_is_in_the_way_after_its_slice() -> None:
    """And its requestor has room for others when it is taken back."""
    rows = Rows()
    hanging = rows.send_all(1)
    assert not rows.hear(hanging, 5.0)
    assert rows.hear(hanging, 4.0) == [due.id for due in hanging]
    assert not rows.hear(hanging), "it was told a moment ago"
    seen = Sighting(Holding.PINNING, 0, 3, PEERS)
    sent = [replace(due, attempts=1, sent=Sent.PIN) for due in hanging]
    acts = [rows.judge(due, seen) for due in sent]
    assert acts == [Act.TAKE_BACK] * 7
    assert len(rows.send_all(1)) == 7


def test_what_hangs_and_leaves_half_of_the_workers_stays() -> None:
    """It may take long to be found, and is in nobody's way."""
    rows = Rows()
    hanging = rows.send_all(1)[:5]
    assert not rows.hear(hanging, 9.0)
    assert not rows.hear(hanging, 9.0)


def test_what_comes_back_takes_room_again() -> None:
    """A batch is closed, or the cluster by itself tries again what has failed."""
    rows = Rows()
    sent = rows.send_all(1)
    rows.hear()
    assert rows.windows.is_empty
    rows.hear(sent, 60.0)
    assert not rows.windows.may_send(1)


def test_what_one_node_only_has_heard_of_is_not_done() -> None:
    """The others have it in hand a moment later; when they had time for it, they are done."""
    rows = Rows()
    sent = rows.send_all(1)
    few = {str(due.cid): False for due in sent}
    for seconds, left in ((0.1, 7), (1.0, 7), (2.0, 0)):
        rows.clock.now += seconds
        rows.windows.heard(few)
        assert len(rows.windows) == left


def test_what_was_sent_before_the_start_takes_room() -> None:
    """It is found by a look. Whether it moves is to be seen, though it has had its slice."""
    rows = Rows()
    rows.clock.now += 1_000.0
    old = [rows.due(1, attempts=1, sent=Sent.PIN, sent_at=rows.clock.now - 60) for _ in range(9)]
    seen = Sighting(Holding.QUEUED, 0, 3, PEERS)
    rows.windows.comes(9)
    assert all(isinstance(rows.judge(due, seen), Outcome) for due in old)
    assert not rows.hear(old)
    assert rows.hear(old, 9.0) == [due.id for due in old]
    assert rows.judge(old[0], seen) is Act.TAKE_BACK
    assert rows.judge(old[1], seen) is Act.TAKE_BACK
    assert rows.judge(old[2], seen) is not Act.TAKE_BACK, "its turn comes now, if others' went"
    assert rows.judge(old[2], Sighting(Holding.PINNING, 0, 3, PEERS)) is Act.TAKE_BACK


def test_what_never_came_to_be_sent_takes_no_room() -> None:
    """Whether it was refused, or its lease was lost before."""
    rows = Rows()
    first = rows.due(1)
    rows.windows.sends(first)
    rows.windows.not_sent(first)
    assert rows.windows.is_empty
    rows.windows.sends(first)
    rows.hear()
    assert not rows.windows.is_empty, "it may be about to be sent"
    rows.hear(seconds=60.0)
    assert rows.windows.is_empty


def test_what_is_not_known_to_us_takes_room_too() -> None:
    """Another process on the same ledger sends to the same workers."""
    other = Rows()
    other.windows.heard({str(raw(b"other %d" % each)): True for each in range(7)})
    assert len(other.send_all(1)) == 2
    other.clock.now += 1.0
    other.windows.heard({})
    assert len(other.send_all(2)) == 7


def test_a_queue_that_is_not_known_limits_nobody() -> None:
    """In an outage of a part of the cluster its listing fails, and pins go on."""
    rows = Rows()
    sent = rows.send_all(1)
    rows.windows.heard(None)
    assert all(rows.windows.may_send(1) for _ in range(100))
    rows.hear(sent)
    assert not rows.windows.may_send(1)


def test_a_clock_that_is_set_back_makes_nothing_last() -> None:
    """A year ahead, and back: nobody has credit, or is held to be there, until next year."""
    rows = Rows()
    rows.clock.now += 1e8
    rows.windows.comes(8)
    sent = rows.send_all(1)
    rows.hear(sent)
    rows.clock.now -= 1e8
    assert not rows.windows.is_shared
    rows.windows.comes(9)
    rows.windows.comes(1)
    rows.hear()
    assert len(rows.send_all(1)) == 7


def test_memory_is_bounded() -> None:
    """However many contents and requestors there are."""
    rows = Rows()
    for requestor in range(30_000):
        rows.windows.sends(rows.due(requestor))
    assert len(rows.windows) <= 20_000
    rows.hear(seconds=100.0)
    assert rows.windows.is_empty


def test_retries_have_a_quarter_of_the_workers() -> None:
    """And what has failed there does not shut out its own next try."""
    rows = Rows()
    seen = Sighting(Holding.FAILED)
    tried = [rows.due(1, attempts=1, sent=Sent.PIN) for _ in range(5)]
    acts = [rows.windows.judge(due, seen, Act.PIN) for due in tried]
    assert [act is Act.PIN for act in acts] == [True, True, False, False, False]
    assert rows.windows.judge(tried[0], seen, Act.PIN) is Act.PIN
    assert rows.windows.may_send(1)
