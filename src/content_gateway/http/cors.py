"""CORS: which pages of other origins may call this service, and what of an answer they may read.

Knows the CORS protocol of the Fetch standard (fetch.spec.whatwg.org, section 3.3). Keys travel in
header fields and never in cookies, so that credentials are not allowed, and `*` is safe. Which
methods a path has is left to asgi.py."""

from collections.abc import Collection, Iterable
from typing import Final

from content_gateway.http.header_block import block_of
from content_gateway.http.problems import Headers

ANY: Final = "*"
# The request fields of ours that a page may send; a browser asks for all but the safelisted ones.
ALLOWED: Final = (
    b"authorization",
    b"cache-control",
    b"content-type",
    b"if-none-match",
    b"if-range",
    b"range",
    *(b"traceparent", b"tracestate"),  # W3C Trace Context: pages that are traced send it with all
    b"x-api-key",
    b"x-request-id",
)
# The answer fields of ours that a page may read besides the safelisted ones; `*` would leave out
# none today, but older browsers take it for a name.
EXPOSED: Final = (
    *(b"accept-ranges", b"age", b"cache-status", b"content-disposition", b"content-gateway-failed"),
    *(b"content-gateway-wallet", b"content-range", b"content-security-policy", b"etag"),
    *(b"location", b"ratelimit", b"ratelimit-policy", b"retry-after"),
    *(b"www-authenticate", b"x-content-type-options", b"x-dailylimit-limit"),
    *(b"x-dailylimit-remaining", b"x-dailylimit-reset", b"x-ipfs-path", b"x-ipfs-roots"),
    *(b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset", b"x-request-id"),
)
# Seconds that a browser may keep a preflight's answer: Firefox' most; Chromium cuts it to 7200.
_MAX_AGE: Final = b"86400"
_VARY: Final = (b"vary", b"origin")
_MAY_READ: Final = (b"access-control-expose-headers", b", ".join(EXPOSED))


class Cors:
    """Lets pages of *origins* call: `https://app.example`; `*`: of any; empty: of no other."""

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)
        self.is_on = bool(origins)
        self._is_open = ANY.encode() in self._origins
        # Where any origin may read, the answer is the same for all, and shared caches may keep it.
        self._for_any = block_of([(b"access-control-allow-origin", b"*"), _MAY_READ])

    def block(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The lines of the fields that every answer to a request with these *headers* gets, where
        CORS is on."""
        if self._is_open:
            return self._for_any
        origin = _value(headers, b"origin")
        if origin not in self._origins:
            return block_of([_VARY])
        return block_of([(b"access-control-allow-origin", origin), _MAY_READ, _VARY])

    def is_preflight(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether OPTIONS with these *headers* asks on behalf of a page, where CORS is on."""
        return self.is_on and _value(headers, b"access-control-request-method") is not None

    def permission(self, methods: bytes) -> Headers:
        """What is added to `block` in the answer to a preflight for a path that has *methods*.

        What the page may do is said in full, whatever it asks for, so that the browser's cache has
        it for the next question too."""
        return [
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", b", ".join(ALLOWED)),
            (b"access-control-max-age", _MAX_AGE),
        ]


def _value(headers: Iterable[tuple[bytes, bytes]], field: bytes) -> bytes | None:
    return next((value for name, value in headers if name == field), None)
