"""When a first status check is worth its while: learned, forgotten, and bounded."""

from content_gateway.pins.backoff import PollInterval


def test_it_learns_how_long_contents_take() -> None:
    """Looks that come too early make it wait longer, up to its limit; those that do not, less."""
    pace = PollInterval(0.5, 20.0)
    assert pace.seconds(0.0) == 0.5
    for _ in range(100):
        pace.record(1000.0, at_first=False)
    assert pace.seconds(1000.0) == 20.0
    for _ in range(50):
        pace.record(1000.0, at_first=True)
    assert 0.5 < pace.seconds(1000.0) < 10.0


def test_it_forgets_when_nothing_happens() -> None:
    """After a busy hour a single content is soon checked again; a clock set back is no matter."""
    pace = PollInterval(0.5, 20.0)
    for _ in range(100):
        pace.record(1000.0, at_first=False)
    assert pace.seconds(1010.0) == 10.0
    assert pace.seconds(1200.0) == 0.5
    assert pace.seconds(0.0) == 20.0
