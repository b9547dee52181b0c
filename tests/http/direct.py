"""An Api that is called without a server: on a virtual clock, or more often than sockets allow."""

from typing import Any

from content_gateway.http.asgi import Api
from content_gateway.http.asgi_extensions import CONNECTION, SENT_BODY
from tests.contract import Answer


async def status_of(api: Api, path: str, *, key: str | None, address: str = "192.0.2.1") -> int:
    """The status of the answer to a GET with *key*, from a client at *address*."""
    status = 0
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "state": {CONNECTION: None},
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [] if key is None else [(b"x-api-key", key.encode())],
        "client": (address, 1),
    }

    async def receive() -> dict[str, Any]:
        raise AssertionError("there is no body")

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await api(scope, receive, send)
    return status


async def ask_directly(
    api: Api, method: str, path: str, body: bytes = b"", media_type: str = ""
) -> Answer:
    """The answer to a request with the key `me`; *path* has its query, and no escapes before it."""
    path, _, query = path.partition("?")
    status, headers, parts = 0, dict[str, str](), list[bytes]()
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "state": {CONNECTION: None},
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"x-api-key", b"me"), (b"content-type", media_type.encode())],
        "client": ("192.0.2.1", 1),
        "extensions": {SENT_BODY: {"length": len(body)}} if body else {},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        headers.update(
            (name.decode(), value.decode()) for name, value in message.get("headers", ())
        )
        parts.append(message.get("body", b""))

    await api(scope, receive, send)
    return Answer(status, headers, b"".join(parts))
