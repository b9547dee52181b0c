"""What a part counts of its own work."""

import asyncio

import pytest

from content_gateway.errors import (
    AnswerTooLarge,
    NameNotFound,
    Overloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.telemetry.numbers import Histogram, Outcomes, outcome_of
from tests.clock import Clock


def test_a_histogram_counts_up_to_each_bound() -> None:
    """A value on a bound is within it (Prometheus: le); what is above all is counted too."""
    one_by_one, together = Histogram((1.0, 2.0)), Histogram((1.0, 2.0))
    values = (7.0, 1.5, 1.0, 0.5)
    for value in values:
        one_by_one.observe(value)
    together.observe_all(values[:2])
    together.observe_all(values[2:])
    together.observe_all([])
    for histogram in (one_by_one, together):
        assert list(histogram.cumulated()) == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
        assert histogram.sum == 10.0


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (NameNotFound(), "absent"),
        (UpstreamTimeout(), "timeout"),
        (TimeoutError(), "timeout"),
        (AnswerTooLarge(), "invalid"),
        (UpstreamUnavailable(), "unavailable"),
        (Overloaded(), "overloaded"),
        (asyncio.CancelledError(), "cancelled"),
        (ZeroDivisionError(), "error"),
    ],
)
def test_each_end_has_its_word(error: BaseException, word: str) -> None:
    """An absence is no failure, and a failure of ours is not the server's."""
    assert outcome_of(error) == word
    clock = Clock()
    outcomes = Outcomes(clock)

    def ask() -> None:
        with outcomes.counted("ens"):
            clock.pass_(3)
            raise error

    with pytest.raises(type(error)):
        ask()
    assert dict(outcomes.counts) == {("ens", word): 1}
    assert outcomes.seconds["ens"].sum == 3


def test_what_is_answered_may_be_counted_otherwise() -> None:
    """A server that answers with an error has answered."""
    outcomes = Outcomes()
    with outcomes.counted("chain") as counted:
        counted.outcome = "refused"
    with outcomes.counted("chain"):
        pass
    assert dict(outcomes.counts) == {("chain", "refused"): 1, ("chain", "answered"): 1}
