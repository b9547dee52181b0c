"""Which problem an error becomes: by whose fault it is."""

from content_gateway.errors import Overloaded, UpstreamError
from content_gateway.http.operations import psa_errors
from content_gateway.http.problems import kind_of


def test_our_own_overload_is_nobody_elses_fault() -> None:
    """It is 503 with a time to come back, and a code of its own, on both faces."""
    assert not issubclass(Overloaded, UpstreamError)
    kind, detail = kind_of(Overloaded())
    assert (kind.status, kind.code, dict(kind.headers)) == (
        503,
        "overloaded",
        {b"retry-after": b"1"},
    )
    assert (b"retry-after", b"1") in psa_errors.headers_of(kind, "1")
    assert b'"reason":"OVERLOADED"' in psa_errors.body_of(kind, detail)
