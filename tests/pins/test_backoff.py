"""When to check a request for the first time: adapted, forgotten, and bounded."""

from content_gateway.pins.backoff import PollInterval


def test_it_adapts_to_how_long_contents_take() -> None:
    """Status checks that come too early make it longer, up to its limit; others shorten it."""
    interval = PollInterval(0.5, 20.0)
    assert interval.seconds(0.0) == 0.5
    for _ in range(100):
        interval.record(1000.0, at_first=False)
    assert interval.seconds(1000.0) == 20.0
    for _ in range(50):
        interval.record(1000.0, at_first=True)
    assert 0.5 < interval.seconds(1000.0) < 10.0


def test_it_forgets_when_nothing_happens() -> None:
    """After a busy hour a single content is soon checked again, also where the clock was set
    back."""
    interval = PollInterval(0.5, 20.0)
    for _ in range(100):
        interval.record(1000.0, at_first=False)
    assert interval.seconds(1010.0) == 10.0
    assert interval.seconds(1200.0) == 0.5
    assert interval.seconds(0.0) == 20.0
