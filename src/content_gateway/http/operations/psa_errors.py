"""Failures: every error below /psa as the Pinning Service API writes it.

Knows that API's form of an error and its names for the usual ones; status, detail and header
fields are those of problems.py, so that one error means the same on both faces."""

from typing import Final

import msgspec

from content_gateway.http.kinds import Kind
from content_gateway.http.problems import Headers

PREFIX: Final = "/psa"
# The API's own names (its yaml, components/responses); other kinds go by their own code.
_REASONS: Final = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    404: "NOT_FOUND",
    409: "INSUFFICIENT_FUNDS",
}
_INTERNAL: Final = "INTERNAL_SERVER_ERROR"
_BEARER: Final = (b"www-authenticate", b'Bearer realm="content-gateway"')
_NEEDS_KEY: Final = "A valid API key is required: Authorization: Bearer KEY."


def is_below(path: str) -> bool:
    """Whether an error at *path* is written in this form."""
    return path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in ("", "/")


def body_of(kind: Kind, detail: str) -> bytes:
    """The failure: a word for programs, and words for people."""
    reason = _REASONS.get(kind.status) or kind.code.upper().replace("-", "_")
    if kind.status == 500:
        reason = _INTERNAL
    details = _NEEDS_KEY if kind.status == 401 else detail
    return msgspec.json.encode({"error": {"reason": reason, "details": details}})


def headers_of(kind: Kind) -> Headers:
    """As those of `problems.headers_of`."""
    more = [_BEARER] if kind.status == 401 else kind.headers
    return [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        *more,
    ]
