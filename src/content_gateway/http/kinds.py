"""The kinds of problems: every status and code that an answer can have, in one table.

Knows what a client reads; what it can do about it is left to error_reference.py, and which of our
errors is of which kind to problems.py."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. *detail* is said where the error brings none that a caller may read."""

    status: int
    code: str
    title: str
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _later(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"retry-after", str(seconds).encode()),)


CLOSE: Final = (b"connection", b"close")
_CLOSE: Final = (CLOSE,)

# -- the form of a request ------------------------------------------------------------------

UNKNOWN_PATH: Final = Kind(
    404,
    "not-found",
    "Not found",
    "There is nothing at this path; /docs lists what there is.",
)
WRONG_METHOD: Final = Kind(
    405,
    "method-not-allowed",
    "Method not allowed",
    "This path does not take that method.",
)
BAD_REQUEST: Final = Kind(
    400, "bad-request", "Bad request", "The request is not valid HTTP/1.1.", _CLOSE
)
BAD_WEIGHT: Final = Kind(
    400, "bad-request", "Bad request", "A weight (q=) is not a number from 0 to 1."
)
SLOW_REQUEST: Final = Kind(
    408,
    "request-timeout",
    "Request timeout",
    "The request did not arrive in time.",
    _CLOSE,
)
LONG_PATH: Final = Kind(
    414,
    "uri-too-long",
    "URI too long",
    "The path is longer than 2048 bytes.",
    _CLOSE,
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
    505,
    "http-version",
    "HTTP version not supported",
    "HTTP/1.1 is spoken here.",
    _CLOSE,
)
OLD_HTTP: Final = Kind(
    505,
    "http-version",
    "HTTP version not supported",
    "A CAR is streamed, which needs HTTP/1.1.",
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
    413,
    "body-too-large",
    "Body too large",
    "The body is larger than 64 KiB.",
    _CLOSE,
)
CUT_BODY: Final = Kind(
    400,
    "invalid-body",
    "Invalid body",
    "The body is shorter than announced.",
    _CLOSE,
)
UNKNOWN_MEDIA_TYPE: Final = Kind(
    415,
    "unsupported-media-type",
    "Unsupported media type",
    "The body must be application/json.",
    _CLOSE,
)
NOT_ACCEPTABLE: Final = Kind(
    406,
    "not-acceptable",
    "Not acceptable",
    "Only raw blocks (application/vnd.ipld.raw), CARs (application/vnd.ipld.car) and, of an IPNS"
    " name, its record (application/vnd.ipfs.ipns-record) are served.",
)
NO_FORMAT: Final = Kind(
    400,
    "format-missing",
    "Format missing",
    "Ask for ?format=raw or ?format=car, of an IPNS name for ?format=ipns-record; nothing else is"
    " served.",
)
ONLY_IF_CACHED: Final = Kind(
    412,
    "not-held",
    "Not held",
    "This content is not held here, and is not fetched.",
)

# -- what was asked for ---------------------------------------------------------------------

INVALID_DOMAIN: Final = Kind(
    400,
    "invalid-domain",
    "Invalid domain",
    "The domain is not valid.",
)
INVALID_CID: Final = Kind(
    400,
    "invalid-cid",
    "Invalid CID",
    "The CID is not valid.",
)
INVALID_IPNS_NAME: Final = Kind(
    400,
    "invalid-ipns-name",
    "Invalid IPNS name",
    "The IPNS name is not valid.",
)
INVALID_COIN_TYPE: Final = Kind(
    400,
    "invalid-coin-type",
    "Invalid coin type",
    "The coin type is not valid.",
)
INVALID_ADDRESS: Final = Kind(
    400,
    "invalid-address",
    "Invalid address",
    "The address is not valid.",
)
INVALID_QUERY: Final = Kind(
    400,
    "invalid-query",
    "Invalid query",
    "The query is not valid.",
)
INVALID_CURSOR: Final = Kind(
    400,
    "invalid-cursor",
    "Invalid cursor",
    "The cursor is not one that was given out.",
)
INVALID_BODY: Final = Kind(400, "invalid-body", "Invalid body", "The body is not valid.")
UNEXPECTED_BODY: Final = Kind(
    400,
    "unexpected-body",
    "Unexpected body",
    "This operation takes no request body.",
    _CLOSE,
)

# -- who asks -------------------------------------------------------------------------------

# One body for every reason: which keys exist is nobody's business.
UNAUTHORIZED: Final = Kind(
    401,
    "unauthorized",
    "Unauthorized",
    "A valid API key is required in the x-api-key header.",
    ((b"www-authenticate", b'ApiKey realm="content-gateway", header="x-api-key"'),),
)
SCOPE_MISSING: Final = Kind(
    403,
    "scope-missing",
    "Forbidden",
    "The API key may not do this.",
)

# Retry-After is the limit's own: when the oldest request that was counted counts no more.
RATE_LIMITED: Final = Kind(
    429,
    "rate-limited",
    "Too many requests",
    "The API key has used up its requests of this minute.",
)
QUOTA_EXCEEDED: Final = Kind(
    429,
    "quota-exceeded",
    "Too many requests",
    "The API key has used up its requests of this day.",
)
TOO_MANY_AT_ONCE: Final = Kind(
    429,
    "too-many-at-once",
    "Too many at once",
    "As much is under way as this key, or address, may have at once.",
    _later(1),
)
PIN_LIMIT: Final = Kind(
    409,
    "pin-limit-reached",
    "Pin limit reached",
    "The API key has as many pins as it may have.",
)

# -- what is not there ----------------------------------------------------------------------

DOMAIN_NOT_FOUND: Final = Kind(
    404,
    "domain-not-found",
    "Domain not found",
    "There is no such domain.",
)
PRIMARY_NAME_NOT_FOUND: Final = Kind(
    404,
    "primary-name-not-found",
    "Primary name not found",
    "The address has no primary name.",
)
TASK_NOT_FOUND: Final = Kind(
    404,
    "task-not-found",
    "Task not found",
    "There is no such task.",
)
PIN_NOT_FOUND: Final = Kind(
    404,
    "pin-not-found",
    "Pin not found",
    "No such pin is held.",
)
NOT_HELD: Final = Kind(
    404,
    "not-held",
    "Not held",
    "This content is not held here.",
)
PATH_NOT_FOUND: Final = Kind(
    404,
    "path-not-found",
    "Path not found",
    "The content has nothing at this path.",
)
NO_CERTIFICATE: Final = Kind(
    404,
    "no-certificate",
    "No certificate",
    "No certificate is wanted for this domain: it shows no content here, or that is not certain.",
)
RANGE_NOT_SATISFIABLE: Final = Kind(
    416,
    "range-not-satisfiable",
    "Range not satisfiable",
    "The range begins behind the end; Content-Range says how long it is.",
)
BLOCKED: Final = Kind(
    451,
    "blocked",
    "Unavailable for legal reasons",
    "The operator does not serve this.",
)

# -- whose fault it is otherwise ------------------------------------------------------------

UPSTREAM_UNAVAILABLE: Final = Kind(
    503,
    "upstream-unavailable",
    "Upstream unavailable",
    "The name service cannot be reached.",
    _later(5),
)
CONTENT_UNAVAILABLE: Final = Kind(
    502,
    "content-unavailable",
    "Content unavailable",
    "No gateway that is asked has the content.",
    _later(30),
)
CONTENT_MALFORMED: Final = Kind(
    502,
    "content-malformed",
    "Content malformed",
    "The content cannot be read as files and directories.",
)
# IPIP-290 has this status for them, though they are the maker's of the site.
SITE_RULES_MALFORMED: Final = Kind(
    500,
    "redirects-malformed",
    "Redirects malformed",
    "The site has broken rules: could not parse _redirects.",
)
UPSTREAM_TIMEOUT: Final = Kind(
    504,
    "upstream-timeout",
    "Upstream timeout",
    "The name service did not answer in time.",
    _later(5),
)
UPSTREAM_INVALID: Final = Kind(
    502,
    "invalid-upstream-response",
    "Invalid upstream response",
    "The name service gave no valid answer.",
)
OVERLOADED: Final = Kind(
    503,
    "overloaded",
    "Overloaded",
    "Too much is waiting here; try again soon.",
    _later(1),
)
STORAGE_UNAVAILABLE: Final = Kind(
    503,
    "storage-unavailable",
    "Storage unavailable",
    "The ledger is not available; nothing is promised.",
    _later(2),
)
CONTRACT_BROKEN: Final = Kind(
    500,
    "contract-broken",
    "Description unavailable",
    "The OpenAPI description is broken.",
)
INTERNAL: Final = Kind(
    500,
    "internal-error",
    "Internal error",
    "Something went wrong on our side; it was logged.",
)

KINDS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Kind))
