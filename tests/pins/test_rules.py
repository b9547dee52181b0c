"""The rules of reconciling: what is asked of a backend, and what is believed of what it says."""

from dataclasses import replace
from typing import Any

import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.errors import (
    GatewayError,
    InvalidUpstreamResponse,
    Overloaded,
    PinDeferred,
    PinFailed,
    StorageUnavailable,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    LastRequest,
    Outcome,
    TrackerStatus,
    WorkItem,
)
from content_gateway.pins.availability import is_unreachable
from content_gateway.pins.backoff import PollInterval, ReconcilePolicy
from content_gateway.pins.rules import MAX_SEND_DELAY, Action, DecisionRules

NOW, BATCH = 1_000_000.0, 60.0
AGE = BATCH + MAX_SEND_DELAY  # a request may be sent a little after it was recorded
JUST, LONG_AGO, LONGER_AGO = NOW - 1, NOW - AGE - 1, NOW - 2 * AGE - 1
QUEUED, PINNED, FAILED = ContentState.QUEUED, ContentState.PINNED, ContentState.FAILED
UNPINNING = ContentState.UNPINNING
LATER = object()  # any outcome without an event that is checked again


@pytest.fixture
def rules() -> DecisionRules:
    return DecisionRules(ReconcilePolicy(), BATCH, jitter=lambda: 1.0)


def item(state: ContentState = QUEUED, **facts: Any) -> WorkItem:
    """A leased content; held unless it is on its way out."""
    cid = Cid(RAW, SHA2_256, bytes(32))
    return WorkItem(
        **({"is_held": state is not UNPINNING} | facts), id=1, cid=cid, state=state, generation=0
    )


HELD = [
    # state, last sent, when, seen: what is done
    (QUEUED, None, 0.0, TrackerStatus.ABSENT, Action.PIN),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.ABSENT, LATER),  # it may be in an open batch
    (QUEUED, LastRequest.PIN, LONG_AGO, TrackerStatus.ABSENT, Action.PIN),  # that batch was lost
    (QUEUED, LastRequest.UNPIN, LONG_AGO, TrackerStatus.ABSENT, Action.PIN),
    (QUEUED, LastRequest.UNPIN, JUST, TrackerStatus.ABSENT, Action.PIN),
    (QUEUED, LastRequest.UNPIN, JUST, TrackerStatus.PINNED, Action.PIN),  # it may be about to go
    (QUEUED, LastRequest.UNPIN, JUST, TrackerStatus.UNKNOWN, Action.PIN),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.QUEUED, Event.SEEN_QUEUED),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.PINNING, Event.SEEN_PINNING),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.UNKNOWN, LATER),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.FAILED, Event.SEEN_FAILED),
    (FAILED, LastRequest.PIN, LONG_AGO, TrackerStatus.FAILED, Action.PIN),  # its backoff is over
    (PINNED, LastRequest.PIN, LONG_AGO, TrackerStatus.ABSENT, Action.PIN),  # it was lost
    (PINNED, LastRequest.PIN, JUST, TrackerStatus.ABSENT, LATER),
    (PINNED, LastRequest.PIN, LONG_AGO, TrackerStatus.LOST, Action.PIN),  # its nodes have
    # Right after a request its peers may not have begun; later they are out of touch.
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.LOST, Event.SEEN_QUEUED),
    (QUEUED, LastRequest.PIN, NOW - 20, TrackerStatus.LOST, Action.PIN),
    (QUEUED, LastRequest.PIN, JUST, TrackerStatus.UNTRACKED, Event.SEEN_QUEUED),
    (QUEUED, LastRequest.PIN, NOW - 20, TrackerStatus.UNTRACKED, Action.PIN),
]
RELEASED = [
    (None, 0.0, TrackerStatus.ABSENT, Event.SEEN_ABSENT),  # it was never sent
    (None, 0.0, TrackerStatus.PINNED, Action.UNPIN),
    (LastRequest.PIN, JUST, TrackerStatus.ABSENT, Action.UNPIN),  # it may come yet
    (LastRequest.PIN, JUST, TrackerStatus.PINNED, Action.UNPIN),
    (LastRequest.PIN, LONG_AGO, TrackerStatus.ABSENT, Action.UNPIN),  # half of it may be here
    (LastRequest.PIN, LONG_AGO, TrackerStatus.QUEUED, Action.UNPIN),
    (LastRequest.PIN, LONG_AGO, TrackerStatus.FAILED, Action.UNPIN),
    (LastRequest.UNPIN, JUST, TrackerStatus.ABSENT, LATER),  # an earlier pin may come after it
    (LastRequest.UNPIN, JUST, TrackerStatus.PINNED, LATER),
    (LastRequest.UNPIN, LONG_AGO, TrackerStatus.PINNED, Action.UNPIN),  # that batch was lost
    # The next row of the CID may rest on a listing that is a batch age old.
    (LastRequest.UNPIN, LONG_AGO, TrackerStatus.ABSENT, LATER),
    (LastRequest.UNPIN, LONGER_AGO, TrackerStatus.ABSENT, Event.SEEN_ABSENT),
    (LastRequest.UNPIN, LONGER_AGO, TrackerStatus.PINNED, Action.UNPIN),
    (LastRequest.UNPIN, LONG_AGO, TrackerStatus.UNKNOWN, LATER),
    (LastRequest.PIN, LONG_AGO, TrackerStatus.UNKNOWN, LATER),
]


@pytest.mark.parametrize(
    ("state", "last_request", "at", "status", "wanted"),
    [*HELD, *((UNPINNING, *released) for released in RELEASED)],
)
def test_a_request_is_sent_where_it_is_surely_needed(
    *,
    rules: DecisionRules,
    state: ContentState,
    last_request: LastRequest | None,
    at: float,
    status: TrackerStatus,
    wanted: Any,
) -> None:
    """Absence counts when the last change is older than the batch age, as does presence after an
    unpin: a DELETE inside an open batch finds nothing, and the pin commits afterwards."""
    action = rules.decide(
        item(state, last_request=last_request, requested_at=at), BackendStatus(status), NOW
    )
    if isinstance(wanted, Action):
        assert action is wanted
        return
    assert isinstance(action, Outcome)
    assert action.event is (None if wanted is LATER else wanted)
    assert not action.attempted
    assert (action.again_in is None) == (wanted is Event.SEEN_ABSENT)
    assert action.again_in is None or action.again_in > 0


@pytest.mark.parametrize(("attempts", "is_believed"), [(0, False), (1, True)])
def test_presence_counts_once_a_pin_was_accepted(
    rules: DecisionRules, attempts: int, *, is_believed: bool
) -> None:
    """A request that was recorded may never have been sent, and before it there may have been an
    unpin that is not committed yet."""
    recorded = item(last_request=LastRequest.PIN, requested_at=JUST, attempts=attempts)
    action = rules.decide(recorded, BackendStatus(TrackerStatus.PINNED), NOW)
    if is_believed:
        assert isinstance(action, Outcome)
        assert action.event is Event.SEEN_PINNED
    else:
        assert action is Action.PIN


SENT_BEFORE = {"last_request": LastRequest.PIN, "requested_at": NOW - AGE - 7}
OLD_WORDS = [
    # what is due: how old a word about it may be
    ({}, AGE),  # nothing was ever sent, or it went a batch ago
    ({"last_request": LastRequest.PIN, "requested_at": NOW - 20}, 20.0),  # from after the request
    (SENT_BEFORE, 7.0),  # from after its batch
    ({"last_request": LastRequest.PIN, "requested_at": NOW + 500}, 0.0),  # a clock was set back
    (SENT_BEFORE | {"state": PINNED, "status_checks": 1}, 7.0),
    (SENT_BEFORE | {"state": PINNED, "status_checks": 2}, None),  # in doubt
    ({"state": UNPINNING, "last_request": LastRequest.PIN, "requested_at": NOW - 20}, 0.0),
    ({"state": UNPINNING}, 0.0),
    ({"state": PINNED, "status_checks": 2}, None),  # it was there before we asked
    ({"state": PINNED, "status_checks": 1}, AGE),
]


@pytest.mark.parametrize(("facts", "oldest"), OLD_WORDS)
def test_an_old_word_counts_where_it_is_from_after_the_last_request(
    rules: DecisionRules, facts: dict[str, Any], oldest: float | None
) -> None:
    """How old a cached status may be. What is in doubt, and what is being unpinned, is asked for
    now."""
    assert rules.max_status_age(item(**facts), NOW) == oldest


@pytest.mark.parametrize(
    ("facts", "again_in"),
    [
        ({"last_request": LastRequest.PIN, "requested_at": NOW - 20, "attempts": 1}, AGE - 20),
        ({"last_request": LastRequest.PIN, "requested_at": LONG_AGO}, None),
        ({}, None),  # where nothing was ever sent, nothing can be lost with a batch
    ],
)
def test_a_pin_is_final_once_it_can_no_longer_be_lost(
    rules: DecisionRules, facts: dict[str, Any], again_in: float | None
) -> None:
    """Seen pinned inside the batch age it is checked once more when that is over; then not."""
    action = rules.decide(item(**facts), BackendStatus(TrackerStatus.PINNED), NOW)
    assert isinstance(action, Outcome)
    assert (action.event, action.again_in) == (Event.SEEN_PINNED, again_in)


def test_a_replica_that_does_not_answer_is_left_to_the_resync(
    rules: DecisionRules,
) -> None:
    """A pinned content of which some replicas answer stays pinned, and is not checked again: no
    request would help."""
    seen = BackendStatus(TrackerStatus.UNKNOWN, 2, 3, reason="a peer is silent")
    action = rules.decide(
        item(PINNED, last_request=LastRequest.PIN, requested_at=LONG_AGO), seen, NOW
    )
    assert action == Outcome(None, None, seen, "a peer is silent")
    for state, replicas in ((PINNED, 0), (QUEUED, 2)):
        unknown = BackendStatus(TrackerStatus.UNKNOWN, replicas, 3)
        action = rules.decide(
            item(state, last_request=LastRequest.PIN, requested_at=LONG_AGO), unknown, NOW
        )
        assert isinstance(action, Outcome)
        assert action.again_in is not None


def test_a_store_without_batches_is_believed_at_once() -> None:
    """With a batch age of 0 a status counts right after a request."""
    rules = DecisionRules(ReconcilePolicy(), 0.0)
    pinned, absent = BackendStatus(TrackerStatus.PINNED), BackendStatus(TrackerStatus.ABSENT)
    asked = item(last_request=LastRequest.PIN, requested_at=NOW)
    assert rules.decide(asked, absent, NOW) is Action.PIN
    assert rules.after_pin(asked, pinned).again_in is None
    kept = rules.decide(item(last_request=LastRequest.UNPIN, requested_at=NOW), pinned, NOW)
    assert isinstance(kept, Outcome)
    assert kept.again_in is None


@pytest.mark.parametrize("error", [UpstreamTimeout("slow"), PinDeferred("later"), TimeoutError()])
def test_an_unpin_that_was_not_accepted_is_sent_again(error: Exception) -> None:
    """Though the status be absent: half of a content may be in a store, which no status shows. It
    was recorded only, or refused; after one that was accepted absence ends it."""
    rules = DecisionRules(ReconcilePolicy(), 0.0)
    absent = BackendStatus(TrackerStatus.ABSENT)
    recorded = item(UNPINNING, last_request=LastRequest.UNPIN, requested_at=LONGER_AGO)
    assert rules.decide(recorded, absent, NOW) is Action.UNPIN
    assert not rules.after_error(recorded, error, attempted=True).attempted
    checked = replace(recorded, status_checks=1)  # and the next one has more time
    assert rules.backoffs.attempt_timeout(checked) > rules.backoffs.attempt_timeout(recorded)
    assert rules.after_unpin().attempted
    accepted = replace(recorded, attempts=1)
    assert rules.decide(accepted, absent, NOW) == Outcome(Event.SEEN_ABSENT, None)


def test_a_store_without_batches_is_asked_how_it_is_now() -> None:
    """An answer from after a request was recorded may be from before it was done."""
    rules = DecisionRules(ReconcilePolicy(), 0.0)
    for last_request in (None, LastRequest.PIN, LastRequest.UNPIN):
        asked = item(last_request=last_request, requested_at=LONG_AGO)
        assert rules.max_status_age(asked, NOW) == 0.0


BROKEN = [
    # error: event, whether it counts as an attempt
    (PinFailed("no"), Event.SEEN_FAILED, True),
    (PinDeferred("later"), None, True),
    (UpstreamUnavailable("away"), None, False),
    (UpstreamTimeout("slow"), None, False),
    (InvalidUpstreamResponse("odd"), None, True),
    (StorageUnavailable("our disk is full"), None, False),
    (Overloaded("our queue is full"), None, True),
    (TimeoutError(), Event.SEEN_PINNING, True),
    (ZeroDivisionError(), None, True),
]


@pytest.mark.parametrize(("error", "event", "attempted"), BROKEN)
def test_only_a_failure_is_a_verdict(
    rules: DecisionRules, error: Exception, event: Event | None, attempted: bool
) -> None:
    """Whatever goes wrong is tried again, with a reason; an outage says nothing of a content. What
    nobody holds stays known until the backend says that it is gone."""
    released = rules.after_error(item(UNPINNING), error, attempted=True)
    assert released.event is not Event.SEEN_ABSENT
    outcome = rules.after_error(item(), error, attempted=True)
    assert (outcome.event, outcome.attempted) == (event, attempted)
    for again_in in (released.again_in, outcome.again_in):
        assert again_in is not None
        assert again_in > 0
    if is_unreachable(error, is_write=True):
        assert outcome.error is None  # it is the backend's, and kept once
        return
    assert outcome.error
    if isinstance(error, GatewayError):
        assert outcome.error == error.detail


def test_backoffs_grow_to_their_limits() -> None:
    """From half a second to five minutes, for what fails to ten, for outages to ten seconds."""
    rules = DecisionRules(ReconcilePolicy(), BATCH, jitter=lambda: 1.0)
    for backoff, first, longest in (
        (rules.backoffs.status_backoff, 0.5, 300.0),
        (rules.backoffs.failure_backoff, 1.0, 600.0),
        (rules.backoffs.unreachable_backoff, 0.5, 10.0),
    ):
        seconds = [backoff(times) for times in range(30)]
        assert (seconds[0], seconds[-1], backoff(10**9)) == (first, longest, longest)
        assert seconds == sorted(seconds)


def test_an_outage_does_not_lengthen_later_backoffs(rules: DecisionRules) -> None:
    """However long it was: unanswered status checks count until the backoff is some seconds."""
    status_checks = 0
    for _ in range(100):
        outcome = rules.after_error(
            item(status_checks=status_checks), UpstreamUnavailable("away"), attempted=False
        )
        assert outcome.again_in is not None
        assert outcome.again_in <= 10.0
        status_checks += not outcome.is_uncounted
    assert rules.backoffs.status_backoff(status_checks) < 5.0


def test_backoffs_have_jitter() -> None:
    """Jitter takes up to a half away, so that many contents are not retried at once."""
    least = DecisionRules(ReconcilePolicy(), BATCH, jitter=lambda: 0.0).backoffs.status_backoff(5)
    most = DecisionRules(ReconcilePolicy(), BATCH, jitter=lambda: 1.0).backoffs.status_backoff(5)
    assert least == most / 2


def test_attempt_timeouts_double() -> None:
    """A first try has five seconds, the next one thirty, each later one twice as many, up to an
    hour."""
    rules = DecisionRules(ReconcilePolicy(), BATCH)
    timeouts = [
        rules.backoffs.attempt_timeout(item(attempts=attempts))
        for attempts in (0, 1, 2, 3, 7, 8, 10**6)
    ]
    assert timeouts == [5.0, 30.0, 60.0, 120.0, 1920.0, 3600.0, 3600.0]


def test_a_poll_interval_adapts_to_how_long_contents_take() -> None:
    """Status checks that come too early make it longer, up to its limit; others shorten it."""
    interval = PollInterval(0.5, 20.0)
    assert interval.seconds(0.0) == 0.5
    for _ in range(100):
        interval.record(1000.0, at_first=False)
    assert interval.seconds(1000.0) == 20.0
    for _ in range(50):
        interval.record(1000.0, at_first=True)
    assert 0.5 < interval.seconds(1000.0) < 10.0


def test_a_poll_interval_is_short_again_when_nothing_happens() -> None:
    """After a busy hour a single content is soon checked again, also where the clock was set
    back."""
    interval = PollInterval(0.5, 20.0)
    for _ in range(100):
        interval.record(1000.0, at_first=False)
    assert interval.seconds(1010.0) == 10.0
    assert interval.seconds(1200.0) == 0.5
    assert interval.seconds(0.0) == 20.0
