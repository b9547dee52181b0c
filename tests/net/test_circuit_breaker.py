"""The breaker: who is let in, when it opens, and that one probe alone decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_gateway.net.circuit_breaker import Breaker, BreakerAttempt
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def enter(breaker: Breaker) -> BreakerAttempt:
    """A call that the breaker must let in."""
    attempt = breaker.enter()
    assert attempt is not None
    return attempt


def fail(breaker: Breaker, times: int = 1) -> None:
    """So many calls that fail, one after the other."""
    for _ in range(times):
        enter(breaker).failed()


def succeed(breaker: Breaker, times: int = 1) -> None:
    """So many calls that are answered."""
    for _ in range(times):
        enter(breaker).succeeded()


def test_three_failures_open_it(breaker: Breaker) -> None:
    """Two are too few; after the third no call is let in."""
    fail(breaker, 2)
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open
    assert breaker.enter() is None


def test_half_of_the_calls_are_enough(breaker: Breaker) -> None:
    """A server that answers every other call is not well; one that answers more is."""
    for _ in range(2):
        succeed(breaker, 2)
        fail(breaker)
    assert not breaker.is_open
    fail(breaker, 2)
    assert breaker.is_open


def test_only_the_last_twenty_calls_count(breaker: Breaker) -> None:
    """Older successes do not outweigh the failures of the last twenty calls."""
    succeed(breaker, 1000)
    fail(breaker, 9)
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open


def test_what_is_long_past_does_not_count(breaker: Breaker, clock: Clock) -> None:
    """Failures outside the window of ten seconds do not add up."""
    for _ in range(10):
        fail(breaker)
        assert not breaker.is_open
        clock.pass_(6)


def test_after_two_seconds_one_probe_is_let_in(breaker: Breaker, clock: Clock) -> None:
    """No second call is let in beside it, however long it takes."""
    fail(breaker, 3)
    clock.pass_(1.9)
    assert breaker.enter() is None
    clock.pass_(0.1)
    assert not breaker.is_open
    enter(breaker)
    assert breaker.enter() is None
    clock.pass_(1000)
    assert breaker.enter() is None


def test_a_good_probe_closes_it_and_forgives(breaker: Breaker, clock: Clock) -> None:
    """The failures before it count no more."""
    fail(breaker, 3)
    clock.pass_(2)
    succeed(breaker)
    fail(breaker)
    assert not breaker.is_open
    fail(breaker)
    assert breaker.is_open


def test_a_bad_probe_opens_it_for_as_long_again(breaker: Breaker, clock: Clock) -> None:
    """One failed probe is enough."""
    fail(breaker, 3)
    for _ in range(5):
        clock.pass_(2)
        fail(breaker)
        assert breaker.enter() is None
    clock.pass_(1.9)
    assert breaker.enter() is None


def test_a_probe_that_was_given_up_makes_room_for_another(breaker: Breaker, clock: Clock) -> None:
    """A probe that is cancelled does not keep the breaker open."""
    fail(breaker, 3)
    clock.pass_(2)
    for _ in range(3):
        enter(breaker).abandoned()
    succeed(breaker)
    assert not breaker.is_open


def test_calls_from_before_do_not_decide_for_the_probe(breaker: Breaker, clock: Clock) -> None:
    """What was asked before it opened says nothing of how the server is now."""
    early = [enter(breaker) for _ in range(3)]
    fail(breaker, 3)
    clock.pass_(2)
    probe = enter(breaker)
    early[0].succeeded()
    assert breaker.enter() is None, "an old success has closed it"
    early[1].abandoned()
    assert breaker.enter() is None, "an old call has made room for a second probe"
    early[2].failed()
    probe.succeeded()
    assert not breaker.is_open, "an old failure has outweighed the probe"


def test_late_failures_do_not_keep_it_open(breaker: Breaker, clock: Clock) -> None:
    """A hundred calls that time out one after the other open it once, for two seconds."""
    early = [enter(breaker) for _ in range(100)]
    fail(breaker, 3)
    for attempt in early:
        clock.pass_(0.0199)
        attempt.failed()
    clock.pass_(0.0101)
    enter(breaker).succeeded()


def test_the_first_word_on_a_call_counts(breaker: Breaker, clock: Clock) -> None:
    """The first outcome of a call is recorded, and later ones are ignored."""
    fail(breaker, 3)
    clock.pass_(2)
    probe = enter(breaker)
    probe.failed()
    probe.succeeded()
    probe.abandoned()
    assert breaker.enter() is None


def test_a_clock_that_goes_back_locks_nobody_out_for_long(breaker: Breaker, clock: Clock) -> None:
    """Two seconds after the old time has come round again there is a probe."""
    fail(breaker, 3)
    clock.pass_(-50)
    assert breaker.enter() is None
    clock.pass_(52)
    succeed(breaker)
    assert not breaker.is_open


@given(st.lists(st.sampled_from(["enter", "good", "bad", "left", "wait"]), max_size=60))
def test_there_is_never_more_than_one_probe_and_always_a_way_back(steps: list[str]) -> None:
    """Whatever happens in whatever order: once all calls have ended, a good one closes it."""
    clock = Clock()
    breaker = Breaker(clock)
    open_since_then: list[BreakerAttempt] = []
    for step in steps:
        if step == "wait":
            clock.pass_(0.7)
        elif step == "enter":
            was_open = breaker.is_open
            attempt = breaker.enter()
            assert (attempt is None) == was_open
            if attempt is not None:
                open_since_then.append(attempt)
        elif open_since_then:
            attempt = open_since_then.pop(0)
            {"good": attempt.succeeded, "bad": attempt.failed, "left": attempt.abandoned}[step]()
    for attempt in open_since_then:
        attempt.abandoned()
    clock.pass_(2)
    enter(breaker).succeeded()
    assert not breaker.is_open
