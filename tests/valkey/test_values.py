"""What is written, and what becomes of what is read: values alone, without a store."""

import random

import pytest

from content_gateway.concurrency.sliding_window import STEPS, SlidingWindow, step_at
from content_gateway.valkey.own_counts import OwnCounts
from content_gateway.valkey.rows import (
    DAY,
    MINUTE,
    WINDOWS,
    Invalid,
    Row,
    Steps,
    counts_in,
    is_behind,
    last_id,
    news_in,
    time_in,
)
from tests.chance import SEED


def test_a_batch_is_the_same_until_it_has_arrived() -> None:
    """And a total has no more than what is in batches."""
    own = OwnCounts()
    own.take({"a": (3, 10, 0)}, 100.5)
    first = own.batch(9)
    assert first is not None
    assert first.rows == (Row("a", MINUTE, 100, 3, 10),)
    own.take({"a": (2, 10, 0), "b": (1, 0, 7)}, 100.6)
    assert own.batch(9) is first
    assert [row.number for row in own.totals()] == [3]
    own.arrived()
    second = own.batch(9)
    assert second is not None
    assert (second.number, len(second.rows)) == (2, 2)
    assert {(row.key, row.number) for row in own.totals()} == {("a", 5), ("b", 1)}
    own.arrived()
    assert not own.has_untold
    assert own.batch(9) is None


def test_batches_are_bounded_and_nothing_is_left_out() -> None:
    """Ten keys in batches of three."""
    own = OwnCounts()
    own.take({f"{number}": (1, 5, 5) for number in range(10)}, 7.0)
    told: list[Row] = []
    while batch := own.batch(3):
        assert len(batch.rows) <= 3
        told += batch.rows
        own.arrived()
    assert sorted(told) == sorted(own.totals())
    assert len(told) == 20


def test_what_counts_no_more_is_forgotten() -> None:
    """Told or not, so that a long outage costs no more than a day's counts."""
    own = OwnCounts()
    for second in range(0, 3 * DAY, 600):
        own.take({"a": (1, 5, 0), "b": (1, 0, 5)}, float(second))
    rows = list(own.totals())
    assert rows == []
    batch = own.batch(1_000)
    assert batch is not None
    assert len(batch.rows) <= 2 * (STEPS + 1)


@pytest.mark.parametrize("ahead", [0.0, 0.49, 0.51, 1e9, -4321.6])
def test_steps_go_there_and_back(ahead: float) -> None:
    """Between any two clocks a count moves by a step at most, or from the last step but one into
    the newest, and none comes from the future."""
    random_ = random.Random(SEED)
    one, two = Steps(), Steps()
    one.hear(1.7e9, 5_000.0)
    two.hear(1.7e9, 5_000.0 + ahead)
    for _ in range(500):
        age = random_.uniform(0, 55)
        row = Row("a", MINUTE, step_at(5_000.0 - age, MINUTE), 1, 9)
        ((_, steps), _) = two.counts([one.theirs(row)], 5_000.0 + ahead)["a"]
        ((step, number),) = steps
        assert number == 1
        newest = step_at(5_000.0 + ahead, MINUTE)
        was = step_at(5_000.0 + ahead - age, MINUTE)
        assert step <= newest
        assert abs(step - was) <= 1 or (step == newest and was == newest - 2)


def test_what_was_written_stays_where_it_is_when_the_stores_clock_is_set() -> None:
    """Else it would stand there twice."""
    steps, row = Steps(), Row("a", DAY, 3, 1, 9)
    steps.hear(1.7e9, 3.5 * 1440)
    before = steps.theirs(row)
    steps.hear(1.8e9, 3.5 * 1440)
    assert steps.theirs(row) == before
    assert steps.theirs(row._replace(step=4)).step > before.step + 100


def test_totals_raise_and_add_nothing() -> None:
    """As often as they come; where less is known here the newest steps are raised first."""
    window = SlidingWindow(100, 60)
    window.add(5, 70.5, 65)
    for _ in range(3):
        window.raise_to([(60, 4), (65, 5), (70, 6)], 70.5)
        assert window.used == 15
    window.raise_to([(60, 1)], 70.5)
    assert window.used == 15
    window.raise_to([(5, 90)], 70.5)  # long over
    assert window.used == 15
    window.raise_to([(70, 500)], 70.5)
    assert window.left == 0


@pytest.mark.parametrize(
    "reply", [None, b"x", [], [b"1"], [b"a", b"b"], 5, {}, [None, None], [b"-1", b"0"]]
)
def test_a_time_that_is_none_is_invalid(reply: object) -> None:
    with pytest.raises(Invalid):
        time_in(reply)


@pytest.mark.parametrize("reply", [b"x", 5, [5], [[b"news", [[b"1"]]]], [[b"news", [[b"x", []]]]]])
def test_news_of_another_form_are_invalid(reply: object) -> None:
    with pytest.raises(Invalid):
        news_in(reply)


@pytest.mark.parametrize("reply", [None, b"", [b"0"], [b"x", []], [b"0", [b"odd"]], 7])
def test_counts_of_another_form_are_invalid(reply: object) -> None:
    with pytest.raises(Invalid):
        counts_in(reply, MINUTE, 1)


def test_ids_are_compared_as_numbers() -> None:
    """Not as text; and the last one of nothing is the start."""
    assert is_behind("9-1", "10-0")
    assert not is_behind("10-2", "10-2")
    assert last_id([]) == last_id(None) == "0-0"
    assert set(WINDOWS) == {MINUTE, DAY}
