"""Requests and responses, as they pass between the routes and the handlers.

Knows the two forms of a response, whole and streamed, and the header fields that all responses
to operations with a key share. Parameters and bodies are left to the handlers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any, Final, TypeAlias

import msgspec

from content_gateway.http.auth import Principal
from content_gateway.http.header_block import block_of
from content_gateway.http.problems import Headers

JSON: Final = (b"content-type", b"application/json")
# Larger bodies are sent in pieces as the client reads them, and need a permit (streams.py).
LARGE_BODY: Final = 16 * 1024
# What the path of a URL may have unescaped (RFC 3986 section 3.3).
PATH_SAFE: Final = "/:@!$&'()*+,;=-._~"
_KEYED: Final = [JSON, (b"cache-control", b"no-store")]


def address_of(scope: Mapping[str, Any]) -> str:
    """The IP address that a request came from; empty where the server does not say (ASGI)."""
    client = scope.get("client")
    address: str = client[0] if client else ""
    return address


class Request(msgspec.Struct, frozen=True):
    """One request.

    *argument* is the path parameter, *query* the query as it was sent, *principal* who asks (None
    where no key is needed). *charged* is whose share of limited resources it uses: the id of the
    requestor, or without one the network it came from."""

    argument: str
    query: bytes
    headers: Iterable[tuple[bytes, bytes]]
    principal: Principal | None
    body: bytes = b""
    charged: str = ""

    @property
    def requestor(self) -> str:
        """The id of who asks; only for operations that need a key."""
        assert self.principal is not None, "the operation has no security"  # noqa: S101
        return self.principal.requestor.id


def _nothing() -> None:
    """The default of `ResponseStream.done`."""


class Response(msgspec.Struct, frozen=True):
    """A whole answer; only what every answer has is added to its fields.

    *block* has the lines of its fields, where they were made already: it is sent many times."""

    body: bytes
    headers: Headers
    status: int = 200
    block: bytes = b""

    def kept(self) -> "Response":
        """The same, to be sent many times."""
        return Response(self.body, self.headers, self.status, block_of(self.headers))


class ResponseStream(msgspec.Struct, frozen=True):
    """An answer whose body is made while it is sent.

    *chunks* is closed when the stream ends or breaks off; then *done* is called."""

    chunks: AsyncIterator[bytes]
    headers: Headers
    status: int = 200
    done: Callable[[], None] = _nothing


Answer: TypeAlias = Response | ResponseStream


async def in_one(body: bytes) -> AsyncIterator[bytes]:
    """All of *body*, as the one chunk of a stream."""
    yield body


class Handler(msgspec.Struct, frozen=True):
    """What answers an operation, and the scope that its key must have (None: no key)."""

    answer: Callable[[Request], Awaitable[Answer]]
    scope: str | None


# Handler by operationId; None: the operation is described, and switched off here.
Handlers: TypeAlias = Mapping[str, Handler | None]


@lru_cache(maxsize=1_000)
def network_of(address: str) -> str:
    """The network that belongs to one client: an IPv4 address, or the /64 of an IPv6 one, which
    has 2^64 addresses to choose from (RFC 4291 section 2.5.1)."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a socket that has no address, as in tests
        return address
    if isinstance(parsed, IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((int(parsed), 64), strict=False))


def length_of(body: bytes) -> tuple[bytes, bytes]:
    """The header field that says how long *body* is."""
    return b"content-length", b"%d" % len(body)


def keyed(body: bytes, *more: tuple[bytes, bytes], status: int = 200) -> Response:
    """The answer to a keyed operation, with *more* header fields than all of them have."""
    return Response(body, [*_KEYED, *more, length_of(body)], status)


def confirmed(message: str, result: dict[str, Any], *more: tuple[bytes, bytes]) -> Response:
    """The answer with a *message* for people and its *result*."""
    return keyed(msgspec.json.encode({"message": message, "result": result}), *more)


def listed(value: bytes) -> list[bytes]:
    """The members of a header field that is a list (RFC 9110 section 5.6.1)."""
    return [member.strip() for member in value.split(b",")]


def has_current_etag(headers: Iterable[tuple[bytes, bytes]], etag: bytes) -> bool:
    """Whether the caller has the body that *etag* names (RFC 9110 section 13.1.2)."""
    for name, value in headers:
        if name == b"if-none-match":
            known = [tag.removeprefix(b"W/") for tag in listed(value)]
            if etag in known or b"*" in known:
                return True
    return False


def wants_only_cached(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether `Cache-Control: only-if-cached` was sent, whose answer has a status of its own."""
    return any(
        name == b"cache-control" and b"only-if-cached" in listed(value.lower())
        for name, value in headers
    )


def demands_refresh(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """True where the caller sent `Cache-Control: no-cache` (RFC 9111 section 5.2.1.4)."""
    for name, value in headers:
        if name == b"cache-control" and b"no-cache" in listed(value.lower()):
            return True
    return False
