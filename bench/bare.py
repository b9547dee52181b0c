"""A bare ASGI function under the service's own server: what a request costs at the least."""

import asyncio
from typing import Any

import uvloop

from content_gateway.http.server import listen, make_server

BODY = b"x" * 210  # the size of a resolve answer


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer a constant."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"210")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def main() -> None:
    """Serve until terminated."""
    listener = listen("127.0.0.1", 0)
    print(f"Listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await make_server(app).serve(sockets=[listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
