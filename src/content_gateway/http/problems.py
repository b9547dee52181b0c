"""Problems: every error as the body a client reads (RFC 9457), from one table.

Knows the status, code, title and words of each error; an error's own detail is passed on only where
it is meant for the caller. Nothing else in the project writes an error body."""

from dataclasses import dataclass
from typing import Final

import msgspec

from content_gateway.errors import (
    Blocked,
    CallerError,
    ContractBroken,
    GatewayError,
    InvalidBody,
    InvalidCid,
    InvalidCoinType,
    InvalidCursor,
    InvalidDomain,
    InvalidIpnsName,
    InvalidQuery,
    InvalidUpstreamResponse,
    KeyRefused,
    NameNotFound,
    NotFound,
    Overloaded,
    PinNotFound,
    ScopeMissing,
    StorageUnavailable,
    TaskNotFound,
    UnexpectedBody,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.http.redaction import without_addresses

Headers = list[tuple[bytes, bytes]]

MEDIA_TYPE: Final = b"application/problem+json"
_TYPE_PREFIX: Final = "urn:content-gateway:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. *detail* is said when the error brings none that a caller may read."""

    status: int
    code: str
    title: str
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _later(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"retry-after", str(seconds).encode()),)


CLOSE: Final = (b"connection", b"close")
_CLOSE: Final = (CLOSE,)


class HttpRefusal(Exception):
    """A request that is refused for its form, before anybody is asked; nothing for the log."""

    def __init__(self, kind: Kind, *more: tuple[bytes, bytes], detail: str = "") -> None:
        super().__init__(kind.code)
        self.kind = kind
        self.more = more
        self.detail = detail or kind.detail


UNKNOWN_PATH: Final = Kind(404, "not-found", "Not found", "There is nothing at this path.")
WRONG_METHOD: Final = Kind(
    405, "method-not-allowed", "Method not allowed", "This path does not take that method."
)
BAD_REQUEST: Final = Kind(
    400, "bad-request", "Bad request", "The request is not valid HTTP/1.1.", _CLOSE
)
SLOW_REQUEST: Final = Kind(
    408, "request-timeout", "Request timeout", "The request did not arrive in time.", _CLOSE
)
LONG_PATH: Final = Kind(
    414, "uri-too-long", "URI too long", "The path is longer than 2048 bytes.", _CLOSE
)
LONG_QUERY: Final = Kind(
    414,
    "uri-too-long",
    "URI too long",
    "The query is too long: the whole head of a request has 16 KiB at most.",
    _CLOSE,
)
LARGE_HEAD: Final = Kind(
    431,
    "header-fields-too-large",
    "Header fields too large",
    "The request has more than 64 header fields or 16 KiB of them.",
    _CLOSE,
)
UNKNOWN_HTTP: Final = Kind(
    505, "http-version", "HTTP version not supported", "HTTP/1.1 is spoken here.", _CLOSE
)
FOREIGN_HOST: Final = Kind(
    421,
    "host-not-local",
    "Misdirected request",
    "This service takes any key, so it answers to hosts of this machine only: 127.0.0.1, [::1] or"
    " localhost in the Host field.",
    _CLOSE,
)
TOO_MANY_CONNECTIONS: Final = Kind(
    503,
    "too-many-connections",
    "Too many connections",
    "Too many connections are open, from this address or in all.",
    (*_later(1), *_CLOSE),
)
BODY_WITHOUT_LENGTH: Final = Kind(
    411,
    "length-required",
    "Length required",
    "A body is taken with a Content-Length, not in chunks.",
    _CLOSE,
)
LARGE_BODY: Final = Kind(
    413, "body-too-large", "Body too large", "The body is larger than 64 KiB.", _CLOSE
)
CUT_BODY: Final = Kind(
    400, "invalid-body", "Invalid body", "The body is shorter than announced.", _CLOSE
)
UNKNOWN_MEDIA_TYPE: Final = Kind(
    415,
    "unsupported-media-type",
    "Unsupported media type",
    "The body must be application/json.",
    _CLOSE,
)
BAD_WEIGHT: Final = Kind(
    400, "bad-request", "Bad request", "A weight (q=) is not a number from 0 to 1."
)
NOT_ACCEPTABLE: Final = Kind(
    406,
    "not-acceptable",
    "Not acceptable",
    "Only raw blocks (application/vnd.ipld.raw) and CARs (application/vnd.ipld.car) are served.",
)
NO_FORMAT: Final = Kind(
    400,
    "format-missing",
    "Format missing",
    "Ask for ?format=raw or ?format=car; nothing else is served.",
)
ONLY_IF_CACHED: Final = Kind(
    412, "not-held", "Not held", "This content is not held here, and is not fetched."
)
OLD_HTTP: Final = Kind(
    505, "http-version", "HTTP version not supported", "A CAR is streamed, which needs HTTP/1.1."
)
INTERNAL: Final = Kind(
    500, "internal-error", "Internal error", "Something went wrong on our side; it was logged."
)
# One body for every reason: which keys exist is nobody's business.
_UNAUTHORIZED: Final = Kind(
    401,
    "unauthorized",
    "Unauthorized",
    "A valid API key is required in the x-api-key header.",
    ((b"www-authenticate", b'ApiKey realm="content-gateway", header="x-api-key"'),),
)
# The details of these are for the log; the words here are for the caller.
_FIXED: Final[dict[type[GatewayError], Kind]] = {KeyRefused: _UNAUTHORIZED}
_TABLE: Final[dict[type[GatewayError], Kind]] = {
    InvalidDomain: Kind(400, "invalid-domain", "Invalid domain", "The domain is not valid."),
    InvalidCid: Kind(400, "invalid-cid", "Invalid CID", "The CID is not valid."),
    InvalidIpnsName: Kind(
        400, "invalid-ipns-name", "Invalid IPNS name", "The IPNS name is not valid."
    ),
    InvalidCoinType: Kind(
        400, "invalid-coin-type", "Invalid coin type", "The coin type is not valid."
    ),
    InvalidQuery: Kind(400, "invalid-query", "Invalid query", "The query is not valid."),
    InvalidCursor: Kind(
        400, "invalid-cursor", "Invalid cursor", "The cursor is not one that was given out."
    ),
    InvalidBody: Kind(400, "invalid-body", "Invalid body", "The body is not valid."),
    UnexpectedBody: Kind(
        400, "unexpected-body", "Unexpected body", "This operation takes no request body.", _CLOSE
    ),
    ScopeMissing: Kind(403, "scope-missing", "Forbidden", "The API key may not do this."),
    NameNotFound: Kind(404, "domain-not-found", "Domain not found", "There is no such domain."),
    TaskNotFound: Kind(404, "task-not-found", "Task not found", "There is no such task."),
    PinNotFound: Kind(404, "pin-not-found", "Pin not found", "No such pin is held."),
    NotFound: Kind(404, "not-held", "Not held", "This content is not held here."),
    Blocked: Kind(
        451, "blocked", "Unavailable for legal reasons", "The operator does not serve this."
    ),
    UpstreamUnavailable: Kind(
        503,
        "upstream-unavailable",
        "Upstream unavailable",
        "The name service cannot be reached.",
        _later(5),
    ),
    UpstreamTimeout: Kind(
        504,
        "upstream-timeout",
        "Upstream timeout",
        "The name service did not answer in time.",
        _later(5),
    ),
    InvalidUpstreamResponse: Kind(
        502, "upstream-nonsense", "Bad upstream answer", "The name service gave no valid answer."
    ),
    Overloaded: Kind(
        503, "overloaded", "Overloaded", "Too much is waiting here; try again soon.", _later(1)
    ),
    StorageUnavailable: Kind(
        503,
        "storage-unavailable",
        "Storage unavailable",
        "The ledger is not available; nothing is promised.",
        _later(2),
    ),
    ContractBroken: Kind(
        500, "contract-broken", "Description unavailable", "The OpenAPI description is broken."
    ),
}


def kind_of(error: Exception) -> tuple[Kind, str]:
    """The kind of problem that *error* is, and the detail its caller may read."""
    if isinstance(error, HttpRefusal):
        return error.kind, error.detail
    for error_type in type(error).__mro__:
        if error_type in _FIXED:
            return _FIXED[error_type], _FIXED[error_type].detail
        if error_type in _TABLE:
            kind = _TABLE[error_type]
            detail = (error.detail if isinstance(error, GatewayError) else "") or kind.detail
            # What a caller asked for is said as it was spelt; of others' servers nothing is.
            is_theirs = isinstance(error, CallerError | NotFound)
            return kind, detail if is_theirs else without_addresses(detail)
    return INTERNAL, INTERNAL.detail


def body_of(kind: Kind, detail: str, request_id: str) -> bytes:
    """The problem document; `message` repeats `detail`, so that every body here has one."""
    return msgspec.json.encode(
        {
            "type": _TYPE_PREFIX + kind.code,
            "title": kind.title,
            "status": kind.status,
            "detail": detail,
            "code": kind.code,
            "requestId": request_id,
            "message": detail,
        }
    )


def headers_of(kind: Kind) -> Headers:
    """The header fields of a problem, but those that every answer has, and its length."""
    return [
        (b"content-type", MEDIA_TYPE),
        (b"cache-control", b"no-store"),
        *kind.headers,
    ]
