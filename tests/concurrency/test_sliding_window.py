"""A limit of so many in the last so many seconds: never more, and hardly less."""

import random

import pytest

from content_gateway.concurrency.sliding_window import SlidingWindow
from tests.chance import SEED


@pytest.mark.parametrize("asked_a_minute", [900, 1_000, 3_000, 60_000])
def test_a_thousand_a_minute_is_a_thousand_a_minute(asked_a_minute: int) -> None:
    """At any rate, over ten minutes: what is let through is the limit or what was asked, with at
    most 2 % less, and in no minute is it more."""
    window, random_ = SlidingWindow(1_000, 60), random.Random(SEED)
    taken, now = [], 0.0
    while now < 600:
        now += random_.expovariate(asked_a_minute / 60)
        if window.take(now):
            taken.append(now)
    assert most_in_any(taken, 60) <= 1_000
    asked = min(1_000, asked_a_minute) * 10
    assert len(taken) >= 0.98 * asked if asked_a_minute > 1_000 else len(taken) >= 0.9 * asked


def test_bursts_around_the_ends_of_steps_are_never_more() -> None:
    """Whoever knows the steps gains nothing: a burst at any two moments within a minute."""
    for first in (0.0, 0.5, 0.99, 1.0, 59.99):
        for gap in (0.01, 0.99, 1.0, 30.0, 59.0, 59.99):
            window = SlidingWindow(10, 60)
            assert [window.take(first) for _ in range(11)] == [True] * 10 + [False]
            assert not window.take(first + gap)
            assert window.take(first + 61)


def test_it_says_when_some_of_it_comes_back() -> None:
    """Whoever waits for as long gets one through, and is told 1 second at least."""
    window = SlidingWindow(2, 60)
    assert window.frees_in(5.0) == 0
    window.take(5.5)
    window.take(20.0)
    assert not window.take(30.0)
    wait = window.frees_in(30.0)
    assert 35 <= wait <= 37
    assert window.take(30.0 + wait)
    assert window.used == 2


def test_a_long_silence_forgets_everything() -> None:
    """Also one of many windows, and one that ends within a step."""
    window = SlidingWindow(3, 60)
    for _ in range(3):
        window.take(1.0)
    assert window.take(100_000.0)
    assert window.used == 1


def test_what_is_used_is_told_at_any_time() -> None:
    """As the next that is taken then would find it, and nothing is changed by asking."""
    window, random_ = SlidingWindow(1_000, 60), random.Random(SEED)
    now = 0.0
    for _ in range(500):
        now += random_.expovariate(1 / 4)
        told = window.used_at(now)
        assert window.used_at(now) == told
        assert window.take(now)
        assert window.used == told + 1
    assert window.used_at(now) == window.used
    assert window.used_at(now + 62) == 0


def most_in_any(moments: list[float], seconds: float) -> int:
    """The most of *moments*, ascending, in any span of so many seconds."""
    most = start = 0
    for end, moment in enumerate(moments):
        while moments[start] <= moment - seconds:
            start += 1
        most = max(most, end - start + 1)
    return most


def test_what_others_counted_counts_like_our_own() -> None:
    """In the step in which it was, until it is a minute old; and never more than the limit."""
    window = SlidingWindow(10, 60)
    window.add(4, 100.5, 70)
    window.add(3, 100.5)
    assert (window.left, list(window.steps())) == (3, [(70, 4), (100, 3)])
    window.add(99, 100.6)
    assert window.left == 0
    assert not window.take(130.5)
    assert window.frees_in(130.5) == 1
    assert [window.take(131.0) for _ in range(5)] == [True] * 4 + [False]
    window.add(5, 200.0, 10)  # long over
    assert list(window.steps()) == []


def test_another_limit_keeps_what_was_counted() -> None:
    """In the same steps."""
    window = SlidingWindow(10, 60)
    for now in (5.0, 5.5, 50.0):
        window.take(now)
    larger = window.resized(20)
    assert (larger.left, list(larger.steps())) == (17, [(5, 2), (50, 1)])
    assert larger.frees_in(50.0) == window.frees_in(50.0)
    assert window.resized(2).left == 0
