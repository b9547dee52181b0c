"""The kinds of problems: every status and code that an answer can have, in one table.

Knows what a client reads and what it can do about it; docs/errors.md is drawn from here
(error_reference.py). Which of our errors is of which kind is left to problems.py."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. *detail* is said where the error brings none that a caller may read.

    *advice* says what to do about it, and whether the same request may succeed later."""

    status: int
    code: str
    title: str
    detail: str
    advice: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _later(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"retry-after", str(seconds).encode()),)


CLOSE: Final = (b"connection", b"close")
_CLOSE: Final = (CLOSE,)
_NEVER: Final = "Do not send it again as it is: it would be refused again."
_RETRY: Final = "Try again after the seconds in `Retry-After`, and wait longer after each failure."
_FORM: Final = f"The request is not one that the service could read. {_NEVER}"

# -- the form of a request ------------------------------------------------------------------

UNKNOWN_PATH: Final = Kind(
    404,
    "not-found",
    "Not found",
    "There is nothing at this path; /docs lists what there is.",
    f"See `/docs`, or `/spec` for programs. {_NEVER}",
)
WRONG_METHOD: Final = Kind(
    405,
    "method-not-allowed",
    "Method not allowed",
    "This path does not take that method.",
    f"`Allow` lists the methods that it takes. {_NEVER}",
)
BAD_REQUEST: Final = Kind(
    400, "bad-request", "Bad request", "The request is not valid HTTP/1.1.", _FORM, _CLOSE
)
BAD_WEIGHT: Final = Kind(
    400, "bad-request", "Bad request", "A weight (q=) is not a number from 0 to 1.", _FORM
)
SLOW_REQUEST: Final = Kind(
    408,
    "request-timeout",
    "Request timeout",
    "The request did not arrive in time.",
    "Head and body have ten seconds each. Send it again, on a new connection.",
    _CLOSE,
)
_LONG_ADVICE: Final = f"A path has 2,048 bytes at most, a head 16 KiB in all. {_NEVER}"
LONG_PATH: Final = Kind(
    414,
    "uri-too-long",
    "URI too long",
    "The path is longer than 2048 bytes.",
    _LONG_ADVICE,
    _CLOSE,
)
LONG_QUERY: Final = Kind(
    414,
    "uri-too-long",
    "URI too long",
    "The query is too long: the whole head of a request has 16 KiB at most.",
    _LONG_ADVICE,
    _CLOSE,
)
LARGE_HEAD: Final = Kind(
    431,
    "header-fields-too-large",
    "Header fields too large",
    "The request has more than 64 header fields or 16 KiB of them.",
    f"Send fewer fields, or shorter ones; cookies are not needed. {_NEVER}",
    _CLOSE,
)
UNKNOWN_HTTP: Final = Kind(
    505,
    "http-version",
    "HTTP version not supported",
    "HTTP/1.1 is spoken here.",
    f"Use HTTP/1.1, or a proxy that does. {_NEVER}",
    _CLOSE,
)
OLD_HTTP: Final = Kind(
    505,
    "http-version",
    "HTTP version not supported",
    "A CAR is streamed, which needs HTTP/1.1.",
    f"Use HTTP/1.1, or a proxy that does. {_NEVER}",
)
FOREIGN_HOST: Final = Kind(
    421,
    "host-not-local",
    "Misdirected request",
    "This service takes any key, so it answers to hosts of this machine only: 127.0.0.1, [::1] or"
    " localhost in the Host field.",
    "Ask for one of these hosts, or let the operator issue keys (`keys.mode`).",
    _CLOSE,
)
TOO_MANY_CONNECTIONS: Final = Kind(
    503,
    "too-many-connections",
    "Too many connections",
    "Too many connections are open, from this address or in all.",
    f"Use few connections, and keep them. {_RETRY}",
    (*_later(1), *_CLOSE),
)
BODY_WITHOUT_LENGTH: Final = Kind(
    411,
    "length-required",
    "Length required",
    "A body is taken with a Content-Length, not in chunks.",
    f"Send a `Content-Length`. {_NEVER}",
    _CLOSE,
)
LARGE_BODY: Final = Kind(
    413,
    "body-too-large",
    "Body too large",
    "The body is larger than 64 KiB.",
    f"Send less; content itself is never sent here. {_NEVER}",
    _CLOSE,
)
_BODY_ADVICE: Final = (
    f"The detail says what is wrong with it; `/spec` has the form of a Pin object. {_NEVER}"
)
CUT_BODY: Final = Kind(
    400,
    "invalid-body",
    "Invalid body",
    "The body is shorter than announced.",
    _BODY_ADVICE,
    _CLOSE,
)
UNKNOWN_MEDIA_TYPE: Final = Kind(
    415,
    "unsupported-media-type",
    "Unsupported media type",
    "The body must be application/json.",
    f"Send `Content-Type: application/json`, and no content coding. {_NEVER}",
    _CLOSE,
)
NOT_ACCEPTABLE: Final = Kind(
    406,
    "not-acceptable",
    "Not acceptable",
    "Only raw blocks (application/vnd.ipld.raw) and CARs (application/vnd.ipld.car) are served.",
    f"Ask with `Accept`, or `?format=raw` or `?format=car`. {_NEVER}",
)
NO_FORMAT: Final = Kind(
    400,
    "format-missing",
    "Format missing",
    "Ask for ?format=raw or ?format=car; nothing else is served.",
    f"Content is served to clients that verify it, as raw blocks and CARs. {_NEVER}",
)
ONLY_IF_CACHED: Final = Kind(
    412,
    "not-held",
    "Not held",
    "This content is not held here, and is not fetched.",
    "Pin it first, or ask another gateway.",
)

# -- what was asked for ---------------------------------------------------------------------

INVALID_DOMAIN: Final = Kind(
    400,
    "invalid-domain",
    "Invalid domain",
    "The domain is not valid.",
    f"The detail says what no name service could hold (ENSIP-15). {_NEVER}",
)
INVALID_CID: Final = Kind(
    400,
    "invalid-cid",
    "Invalid CID",
    "The CID is not valid.",
    f"The detail says what is wrong with its spelling, or why it cannot be pinned. {_NEVER}",
)
INVALID_IPNS_NAME: Final = Kind(
    400,
    "invalid-ipns-name",
    "Invalid IPNS name",
    "The IPNS name is not valid.",
    f"It is a key in any spelling, or a DNSLink domain. {_NEVER}",
)
INVALID_COIN_TYPE: Final = Kind(
    400,
    "invalid-coin-type",
    "Invalid coin type",
    "The coin type is not valid.",
    f"It is a number of SLIP-44, or 0x80000000 + the chain id (ENSIP-11). {_NEVER}",
)
INVALID_QUERY: Final = Kind(
    400,
    "invalid-query",
    "Invalid query",
    "The query is not valid.",
    f"The detail names the parameter; one that is not known is never passed over. {_NEVER}",
)
INVALID_CURSOR: Final = Kind(
    400,
    "invalid-cursor",
    "Invalid cursor",
    "The cursor is not one that was given out.",
    f"Take `next` of the page before, as it is. {_NEVER}",
)
INVALID_BODY: Final = Kind(
    400, "invalid-body", "Invalid body", "The body is not valid.", _BODY_ADVICE
)
UNEXPECTED_BODY: Final = Kind(
    400,
    "unexpected-body",
    "Unexpected body",
    "This operation takes no request body.",
    f"Send none, or an empty JSON object. {_NEVER}",
    _CLOSE,
)

# -- who asks -------------------------------------------------------------------------------

# One body for every reason: which keys exist is nobody's business.
UNAUTHORIZED: Final = Kind(
    401,
    "unauthorized",
    "Unauthorized",
    "A valid API key is required in the x-api-key header.",
    "The key is missing, misspelt, sent twice, expired or revoked; the operator's log says which."
    f" {_NEVER}",
    ((b"www-authenticate", b'ApiKey realm="content-gateway", header="x-api-key"'),),
)
SCOPE_MISSING: Final = Kind(
    403,
    "scope-missing",
    "Forbidden",
    "The API key may not do this.",
    f"`GET /key` lists what it may do; the operator issues keys with other scopes. {_NEVER}",
)

# Retry-After is the limit's own: when the oldest request that was counted counts no more.
RATE_LIMITED: Final = Kind(
    429,
    "rate-limited",
    "Too many requests",
    "The API key has used up its requests of this minute.",
    "Wait for the seconds in `Retry-After`; `RateLimit` in every answer tells what is left, and"
    " `GET /key` all limits of the key.",
)
QUOTA_EXCEEDED: Final = Kind(
    429,
    "quota-exceeded",
    "Too many requests",
    "The API key has used up its requests of this day.",
    "As for `rate-limited`; the operator can issue a key with a higher limit.",
)
TOO_MANY_AT_ONCE: Final = Kind(
    429,
    "too-many-at-once",
    "Too many at once",
    "As much is under way as this key, or address, may have at once.",
    f"Wait for answers before you ask on; `GET /key` tells the limits of the key. {_RETRY}",
    _later(1),
)
PIN_LIMIT: Final = Kind(
    409,
    "pin-limit-reached",
    "Pin limit reached",
    "The API key has as many pins as it may have.",
    "Remove a pin, or let the operator raise the limit. Pins that are held already are not"
    " affected.",
)

# -- what is not there ----------------------------------------------------------------------

DOMAIN_NOT_FOUND: Final = Kind(
    404,
    "domain-not-found",
    "Domain not found",
    "There is no such domain.",
    "Every name service that covers the domain said so; an outage is never answered like this. It"
    " may be registered later.",
)
TASK_NOT_FOUND: Final = Kind(
    404,
    "task-not-found",
    "Task not found",
    "There is no such task.",
    "Tasks are told of for an hour. Start the resolution again.",
)
PIN_NOT_FOUND: Final = Kind(
    404,
    "pin-not-found",
    "Pin not found",
    "No such pin is held.",
    "This key has no pin of that CID, or none with that request id. Add it.",
)
NOT_HELD: Final = Kind(
    404,
    "not-held",
    "Not held",
    "This content is not held here.",
    "Pin it first, or ask another gateway.",
)
BLOCKED: Final = Kind(
    451,
    "blocked",
    "Unavailable for legal reasons",
    "The operator does not serve this.",
    f"The operator's denylist names it. {_NEVER}",
)

# -- whose fault it is otherwise ------------------------------------------------------------

UPSTREAM_UNAVAILABLE: Final = Kind(
    503,
    "upstream-unavailable",
    "Upstream unavailable",
    "The name service cannot be reached.",
    f"A server behind this one is down or refuses. {_RETRY}",
    _later(5),
)
UPSTREAM_TIMEOUT: Final = Kind(
    504,
    "upstream-timeout",
    "Upstream timeout",
    "The name service did not answer in time.",
    f"A server behind this one is too slow. {_RETRY}",
    _later(5),
)
UPSTREAM_INVALID: Final = Kind(
    502,
    "upstream-nonsense",
    "Bad upstream answer",
    "The name service gave no valid answer.",
    "A server behind this one, or the name's own resolver, gave an answer that cannot be right. Try"
    " again in a minute; if it stays, tell the operator the `requestId`.",
)
OVERLOADED: Final = Kind(
    503,
    "overloaded",
    "Overloaded",
    "Too much is waiting here; try again soon.",
    f"Too much of this key's work, or of all, is waiting; nothing was done. {_RETRY}",
    _later(1),
)
STORAGE_UNAVAILABLE: Final = Kind(
    503,
    "storage-unavailable",
    "Storage unavailable",
    "The ledger is not available; nothing is promised.",
    f"The service cannot read or write its own files; nothing was done. {_RETRY}",
    _later(2),
)
CONTRACT_BROKEN: Final = Kind(
    500,
    "contract-broken",
    "Description unavailable",
    "The OpenAPI description is broken.",
    "Tell the operator; everything else is answered.",
)
INTERNAL: Final = Kind(
    500,
    "internal-error",
    "Internal error",
    "Something went wrong on our side; it was logged.",
    "Tell the operator the `requestId`. A pin may have been added: ask for its status.",
)

KINDS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Kind))
