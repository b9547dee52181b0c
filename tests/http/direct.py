"""An Api that is called without a server, for tests on a virtual clock."""

from typing import Any

from content_gateway.http.asgi import Api
from content_gateway.http.asgi_extensions import CONNECTION


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
