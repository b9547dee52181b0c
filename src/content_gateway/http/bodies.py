"""Request bodies: taken in whole, small and in time, or refused.

Knows what the protocol says of a body and what this service takes: at most 64 KiB of the media type
that the operation names, mostly JSON, with its length announced. What it must say is left to the
operation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from content_gateway.errors import UnexpectedBody
from content_gateway.http.asgi_extensions import MAX_BODY_BYTES, SENT_BODY
from content_gateway.http.kinds import (
    BODY_WITHOUT_LENGTH,
    CUT_BODY,
    LARGE_BODY,
    SLOW_REQUEST,
    UNKNOWN_MEDIA_TYPE,
)
from content_gateway.http.problems import HttpRefusal

SECONDS: Final = 10.0  # until a body must be there
JSON: Final = b"application/json"
_EMPTY_BYTES: Final = 16  # an empty object, and white space

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def read_body(
    scope: MutableMapping[str, Any],
    receive: Receive,
    *,
    seconds: float,
    media_type: bytes = JSON,
) -> bytes:
    """The body of the request in *scope*, b"" if it has none; raises HttpRefusal."""
    sent = scope.get("extensions", {}).get(SENT_BODY)
    if sent is None:
        return b""
    if sent["length"] is None:
        raise HttpRefusal(BODY_WITHOUT_LENGTH)
    if sent["length"] > MAX_BODY_BYTES:
        raise HttpRefusal(LARGE_BODY)
    if not _is_of(media_type, scope["headers"]):
        named = media_type.decode()
        raise HttpRefusal(UNKNOWN_MEDIA_TYPE, detail=f"The body must be {named}.")
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise HttpRefusal(SLOW_REQUEST) from None
    if message["type"] != "http.request" or message["more_body"]:
        raise HttpRefusal(CUT_BODY)
    body: bytes = message["body"]
    return body


async def pass_over_empty(
    scope: MutableMapping[str, Any], receive: Receive, *, seconds: float
) -> None:
    """Take the empty JSON object that some generated clients send where no body belongs.

    Raises UnexpectedBody for any other body."""
    length = scope["extensions"][SENT_BODY]["length"]
    if length is None or length > _EMPTY_BYTES or not _is_of(JSON, scope["headers"]):
        raise UnexpectedBody
    if (await read_body(scope, receive, seconds=seconds)).split() not in ([b"{}"], [b"{", b"}"]):
        raise UnexpectedBody


def _is_of(wanted: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a body under *headers* says that it is *wanted*, and nothing is wrapped around it."""
    types = [value for name, value in headers if name == b"content-type"]
    if len(types) != 1 or any(name == b"content-encoding" for name, _ in headers):
        return False
    media_type, _, parameters = types[0].lower().partition(b";")
    charset = parameters.replace(b" ", b"").replace(b'"', b"")
    return media_type.strip() == wanted and charset in (b"", b"charset=utf-8")
