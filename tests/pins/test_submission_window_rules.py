"""The rules of windows before a backend's queue: room, credit, and what is taken back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    LastRequest,
    Outcome,
    Peer,
    TrackerStatus,
    WorkItem,
)
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.rules import Action, DecisionRules
from content_gateway.pins.submission_window import SubmissionWindows, is_retry
from tests.ledgers import Clock
from tests.pins.promises import raw

PEERS = (Peer("peer0", "pinning"),)


class Rows:
    """Contents of requestors, under a clock, before a queue of ten."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.windows = SubmissionWindows(10, DecisionRules(ReconcilePolicy(), 0.0), self.clock)
        self._number = 0
        self.windows.record_arrival(8)
        self.windows.record_arrival(9)  # so that there are others

    def item(self, requestor: int, **known: Any) -> WorkItem:
        self._number += 1
        cid = raw(b"row %d" % self._number)
        return WorkItem(
            self._number, cid, ContentState.QUEUED, 1, True, requestor=requestor, **known
        )

    def send_all(self, requestor: int) -> list[WorkItem]:
        sent: list[WorkItem] = []
        while self.windows.may_send(requestor) and len(sent) < 1_000:
            sent.append(self.item(requestor))
            self.windows.reserve(sent[-1])
            self.windows.record_sent(sent[-1])
        return sent

    def adjust(self, item: WorkItem, seen: BackendStatus) -> Action | Outcome:
        """What is to be done about what would be checked again."""
        return self.windows.adjust(item, seen, Outcome(None, 1.0))

    def hear(self, in_progress: Sequence[WorkItem] = (), seconds: float = 1.0) -> list[int]:
        """So many *seconds* later, what the backend still has in hand."""
        self.clock.now += seconds
        return self.windows.record_answer({str(item.cid): True for item in in_progress})


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
    assert len(rows.send_all(1)) == 7, "its credit is gone"


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
        item = rows.item(1)
        rows.windows.reserve(item)
        rows.windows.record_sent(item)
        rows.hear([item])
        rows.windows.record_arrival(9)
        rows.hear()
    assert len(rows.send_all(1)) == 9


def test_what_hangs_is_in_the_way_after_its_attempt_timeout() -> None:
    """And its requestor has room for others when it is taken back."""
    rows = Rows()
    hanging = rows.send_all(1)
    assert not rows.hear(hanging, 5.0)
    assert rows.hear(hanging, 4.0) == [item.id for item in hanging]
    assert not rows.hear(hanging), "it was told a moment ago"
    seen = BackendStatus(TrackerStatus.PINNING, 0, 3, PEERS)
    sent = [replace(item, attempts=1, last_request=LastRequest.PIN) for item in hanging]
    actions = [rows.adjust(item, seen) for item in sent]
    assert actions == [Action.WITHDRAW] * 7
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
    few = {str(item.cid): False for item in sent}
    for seconds, left in ((0.1, 7), (1.0, 7), (2.0, 0)):
        rows.clock.now += seconds
        rows.windows.record_answer(few)
        assert len(rows.windows) == left


def test_what_was_sent_before_the_start_takes_room() -> None:
    """It is found by a status check. Whether it moves is to be seen, though it has had its attempt
    timeout."""
    rows = Rows()
    rows.clock.now += 1_000.0
    old = [
        rows.item(1, attempts=1, last_request=LastRequest.PIN, requested_at=rows.clock.now - 60)
        for _ in range(9)
    ]
    seen = BackendStatus(TrackerStatus.QUEUED, 0, 3, PEERS)
    rows.windows.record_arrival(9)
    assert all(isinstance(rows.adjust(item, seen), Outcome) for item in old)
    assert not rows.hear(old)
    assert rows.hear(old, 9.0) == [item.id for item in old]
    assert rows.adjust(old[0], seen) is Action.WITHDRAW
    assert rows.adjust(old[1], seen) is Action.WITHDRAW
    assert rows.adjust(old[2], seen) is not Action.WITHDRAW, "its turn comes now, if others' went"
    assert rows.adjust(old[2], BackendStatus(TrackerStatus.PINNING, 0, 3, PEERS)) is Action.WITHDRAW


def test_what_never_came_to_be_sent_takes_no_room() -> None:
    """Whether it was refused, or its lease was lost before."""
    rows = Rows()
    first = rows.item(1)
    rows.windows.reserve(first)
    rows.windows.record_not_sent(first)
    assert rows.windows.is_empty
    rows.windows.reserve(first)
    rows.hear()
    assert not rows.windows.is_empty, "it may be about to be sent"
    rows.hear(seconds=60.0)
    assert rows.windows.is_empty


def test_what_is_not_known_to_us_takes_room_too() -> None:
    """Another process on the same ledger sends to the same workers."""
    other = Rows()
    other.windows.record_answer({str(raw(b"other %d" % each)): True for each in range(7)})
    assert len(other.send_all(1)) == 2
    other.clock.now += 1.0
    other.windows.record_answer({})
    assert len(other.send_all(2)) == 7


def test_a_queue_that_is_not_known_limits_nobody() -> None:
    """In an outage of a part of the cluster its listing fails, and pins go on."""
    rows = Rows()
    sent = rows.send_all(1)
    rows.windows.record_answer(None)
    assert all(rows.windows.may_send(1) for _ in range(100))
    rows.hear(sent)
    assert not rows.windows.may_send(1)


def test_a_clock_that_is_set_back_makes_nothing_last() -> None:
    """A year ahead, and back: nobody has credit, or is held to be there, until next year."""
    rows = Rows()
    rows.clock.now += 1e8
    rows.windows.record_arrival(8)
    sent = rows.send_all(1)
    rows.hear(sent)
    rows.clock.now -= 1e8
    assert not rows.windows.is_shared
    rows.windows.record_arrival(9)
    rows.windows.record_arrival(1)
    rows.hear()
    assert len(rows.send_all(1)) == 7


def test_memory_is_bounded() -> None:
    rows = Rows()
    for requestor in range(30_000):
        rows.windows.reserve(rows.item(requestor))
    assert len(rows.windows) <= 20_000
    rows.hear(seconds=100.0)
    assert rows.windows.is_empty


def test_retries_have_a_quarter_of_the_workers() -> None:
    """And what has failed there does not shut out its own next try."""
    rows = Rows()
    seen = BackendStatus(TrackerStatus.FAILED)
    tried = [rows.item(1, attempts=1, last_request=LastRequest.PIN) for _ in range(5)]
    actions = [rows.windows.adjust(item, seen, Action.PIN) for item in tried]
    assert [action is Action.PIN for action in actions] == [True, True, False, False, False]
    assert rows.windows.adjust(tried[0], seen, Action.PIN) is Action.PIN
    assert rows.windows.may_send(1)


def test_what_was_forgotten_with_its_request_is_no_retry() -> None:
    """Nobody was at it, so that it has room like what is new; what was taken back has hung."""
    rows = Rows()
    gone = BackendStatus(TrackerStatus.ABSENT)
    assert not is_retry(rows.item(1, attempts=3, last_request=LastRequest.PIN), gone)
    assert is_retry(rows.item(1, attempts=3, last_request=LastRequest.UNPIN), gone)
    assert is_retry(
        rows.item(1, attempts=1, last_request=LastRequest.PIN), BackendStatus(TrackerStatus.FAILED)
    )
    for _ in range(5):
        item = rows.item(1, attempts=1, last_request=LastRequest.PIN)
        assert rows.windows.adjust(item, gone, Action.PIN) is Action.PIN
