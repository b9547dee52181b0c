"""The numbers of several processes as those of one."""

from content_gateway.telemetry.merged import lasting, merged
from content_gateway.telemetry.numbers import Family, Histogram


def seconds_of(*values: float) -> Histogram:
    histogram = Histogram()
    histogram.observe_all(values)
    return histogram


def test_counters_and_histograms_are_added() -> None:
    """By their labels, also those that only one process has."""
    one = [
        Family("counter", "asked", "", ("route",), {("/a",): 2, ("/b",): 1}),
        Family("histogram", "took", "", (), histograms={(): seconds_of(0.001, 2.0)}),
    ]
    other = [
        Family("counter", "asked", "", ("route",), {("/a",): 3, ("/c",): 4}),
        Family("histogram", "took", "", (), histograms={(): seconds_of(0.001)}),
    ]
    asked, took = merged((one, other))
    assert asked.numbers == {("/a",): 5, ("/b",): 1, ("/c",): 4}
    assert took.histograms[()].counts == seconds_of(0.001, 0.001, 2.0).counts
    assert took.histograms[()].sum == 2.002
    assert sum(one[1].histograms[()].counts) == 2  # what was given is as it was


def test_a_gauge_says_what_those_of_several_are_together() -> None:
    """A sum of what each has, the most of what all see, the least of what one has found out."""
    for across, whole in (("sum", 5), ("max", 3), ("min", 2)):
        parts = [[Family("gauge", "one", "", (), {(): n}, across=across)] for n in (3, 2)]  # type: ignore[arg-type]
        assert merged(parts)[0].numbers == {(): whole}


def test_what_has_ended_goes_on_to_count() -> None:
    """Its counters; its gauges are of nobody."""
    families = [Family("counter", "asked", "", (), {(): 2}), Family("gauge", "open", "", (), {})]
    assert lasting(families) == families[:1]
