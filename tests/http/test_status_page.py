"""The page /status as it is made of values."""

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.status_page import ServiceStatus, key_rows, render
from content_gateway.model.allowance import Allowance
from tests.clock import NOW


def test_a_window_that_is_over_is_not_shown() -> None:
    """Of a key that stopped asking the page shows what counts now, not what it had used then."""
    limits = KeyLimits()
    allowance = Allowance(requests_per_minute=100, requests_per_day=1_000)
    asking = Requestor("id", frozenset(), "wallet-team", allowance)
    for _ in range(7):
        limits.admit(asking, "getKey", 10.0)

    def shown(moment: float) -> str:
        status = ServiceStatus(
            now=NOW,
            started=NOW,
            checks={},
            endpoints=[],
            keys=key_rows(limits, moment),
        )
        return render(status).body.decode()

    assert "<td>7 of 100</td><td>7 of 1,000</td>" in shown(12.0)
    assert "<td>0 of 100</td><td>7 of 1,000</td>" in shown(80.0)
    assert "<td>0 of 100</td><td>0 of 1,000</td>" in shown(100_000.0)
