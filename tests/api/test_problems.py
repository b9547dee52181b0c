"""Which problem an error becomes: by whose fault it is."""

from content_gateway.api import failures
from content_gateway.api.problems import kind_of
from content_gateway.errors import Overloaded, UpstreamError


def test_our_own_overload_is_nobody_elses_fault() -> None:
    """It is 503 with a time to come back, and a code of its own, on both faces."""
    assert not issubclass(Overloaded, UpstreamError)
    kind, detail = kind_of(Overloaded())
    assert (kind.status, kind.code, dict(kind.headers)) == (
        503,
        "overloaded",
        {b"retry-after": b"1"},
    )
    assert (b"retry-after", b"1") in failures.headers_of(kind, "1")
    assert b'"reason":"OVERLOADED"' in failures.body_of(kind, detail)
