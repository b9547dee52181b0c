"""Problems: every error as the body a client reads (RFC 9457).

Knows the kind of each error (kinds.py); an error's own detail is passed on only where it is meant
for the caller. Nothing else in the project writes an error body."""

from typing import Final

import msgspec

from content_gateway.errors import (
    Blocked,
    CallerError,
    ContentMalformed,
    ContentUnavailable,
    ContractBroken,
    GatewayError,
    InvalidAddress,
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
    PathNotFound,
    PinLimitReached,
    PinNotFound,
    PrimaryNameNotFound,
    ScopeMissing,
    SiteRulesMalformed,
    StorageUnavailable,
    TaskNotFound,
    TooManyAtOnce,
    UnexpectedBody,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.http import kinds
from content_gateway.http.kinds import Kind
from content_gateway.http.redaction import without_addresses

Headers = list[tuple[bytes, bytes]]

MEDIA_TYPE: Final = b"application/problem+json"
# A link to what a person can read about it, wherever this is served (RFC 9457 section 3.1.1).
_TYPE_PREFIX: Final = "/docs/errors#"


class HttpRefusal(Exception):
    """A request that is refused for its form, before anybody is asked; nothing for the log."""

    def __init__(self, kind: Kind, *more: tuple[bytes, bytes], detail: str = "") -> None:
        super().__init__(kind.code)
        self.kind = kind
        self.more = more
        self.detail = detail or kind.detail


# The details of these are for the log; the words of their kind are for the caller.
_FIXED: Final[dict[type[GatewayError], Kind]] = {KeyRefused: kinds.UNAUTHORIZED}
_TABLE: Final[dict[type[GatewayError], Kind]] = {
    InvalidDomain: kinds.INVALID_DOMAIN,
    InvalidCid: kinds.INVALID_CID,
    InvalidIpnsName: kinds.INVALID_IPNS_NAME,
    InvalidCoinType: kinds.INVALID_COIN_TYPE,
    InvalidAddress: kinds.INVALID_ADDRESS,
    InvalidQuery: kinds.INVALID_QUERY,
    InvalidCursor: kinds.INVALID_CURSOR,
    InvalidBody: kinds.INVALID_BODY,
    UnexpectedBody: kinds.UNEXPECTED_BODY,
    ScopeMissing: kinds.SCOPE_MISSING,
    PinLimitReached: kinds.PIN_LIMIT,
    TooManyAtOnce: kinds.TOO_MANY_AT_ONCE,
    NameNotFound: kinds.DOMAIN_NOT_FOUND,
    PrimaryNameNotFound: kinds.PRIMARY_NAME_NOT_FOUND,
    TaskNotFound: kinds.TASK_NOT_FOUND,
    PinNotFound: kinds.PIN_NOT_FOUND,
    PathNotFound: kinds.PATH_NOT_FOUND,
    NotFound: kinds.NOT_HELD,
    Blocked: kinds.BLOCKED,
    ContentUnavailable: kinds.CONTENT_UNAVAILABLE,
    ContentMalformed: kinds.CONTENT_MALFORMED,
    SiteRulesMalformed: kinds.SITE_RULES_MALFORMED,
    UpstreamUnavailable: kinds.UPSTREAM_UNAVAILABLE,
    UpstreamTimeout: kinds.UPSTREAM_TIMEOUT,
    InvalidUpstreamResponse: kinds.UPSTREAM_INVALID,
    Overloaded: kinds.OVERLOADED,
    StorageUnavailable: kinds.STORAGE_UNAVAILABLE,
    ContractBroken: kinds.CONTRACT_BROKEN,
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
    return kinds.INTERNAL, kinds.INTERNAL.detail


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
