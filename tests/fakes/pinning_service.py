"""A miniature of somebody's pinning service: lists pins by `before`, `status` and `limit`.

Made to the API's yaml (1.0.0), and to what real services do otherwise: each such habit is a switch.
What goes wrong with HTTP itself is a mood (tests/fakes/miniature.py)."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from aiohttp import web

from tests.fakes.miniature import Miniature, Mood, running

TOKEN = "canary-3f9a1c"


class PinningService(Miniature):
    """Pins as PinStatus objects, in any order; the habits are off until they are switched on."""

    def __init__(self) -> None:
        super().__init__()
        self.pins: list[dict[str, Any]] = []
        self.accounts = {TOKEN: self.pins}
        self.most = 1000  # in one page
        self.count: int | None = None  # a lie
        self.ignores_before = False
        self.shows_milliseconds = False  # and compares microseconds
        self.repeats = 1
        self.bomb = False
        self.cuts_json = False
        self.failures: list[tuple[Mood, str | None]] = []  # of the next answers, with Retry-After
        self.authorizations: set[str] = set()
        self.codings: set[str] = set()

    def add(self, number: int, cid: str, created: str, **members: Any) -> None:
        """A pinned pin; *members* of its Pin object."""
        self.pins.append(
            {
                "requestid": f"request-{number}",
                "status": "pinned",
                "created": created,
                "pin": {"cid": cid, **members},
                "delegates": ["/ip4/203.0.113.1/tcp/4001/p2p/QmServicePeerId"],
                "info": {"anything": "goes"},
            }
        )

    def break_off(self, after: int) -> None:
        """Answer so many requests, and then one with 404."""
        self.failures = [*[("well", None) for _ in range(after)], ("404", None)]

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.authorizations.add(request.headers.get("Authorization", ""))
        self.codings.add(request.headers.get("Accept-Encoding", ""))
        if self.failures:
            mood, retry_after = self.failures.pop(0)
            if retry_after is not None:
                return web.Response(status=int(mood), headers={"Retry-After": retry_after})
            before, self.mood = self.mood, mood
            try:
                return await super().serve(request)
            finally:
                self.mood = before
        return await super().serve(request)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        pins = self.accounts.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if pins is None:
            words = f"{request.headers.get('Authorization')} is not known here"
            return web.json_response({"error": {"reason": words}}, status=401)
        if request.path != "/api/pins":
            return web.Response(status=404)
        found = self._found(pins, request)
        limit = min(int(request.query["limit"]), self.most)
        page = [pin for pin in found[:limit] for _ in range(self.repeats)]
        if self.shows_milliseconds:
            page = [pin | {"created": _to_the_millisecond(pin["created"])} for pin in page]
        count = len(found) if self.count is None else self.count
        body = json.dumps({"count": count, "results": page}).encode()
        if self.cuts_json:
            body = body[: len(body) // 2]
        if self.bomb:
            headers = {"Content-Encoding": "gzip"}
            return web.Response(body=gzip.compress(b" " * 200_000_000), headers=headers)
        return web.Response(body=body, content_type="application/json")

    def _found(self, pins: list[dict[str, Any]], request: web.BaseRequest) -> list[dict[str, Any]]:
        statuses = request.query["status"].split(",")
        found = [pin for pin in pins if pin.get("status", "pinned") in statuses]
        if "before" in request.query and not self.ignores_before:
            before = datetime.fromisoformat(request.query["before"])
            found = [pin for pin in found if datetime.fromisoformat(pin["created"]) < before]
        return sorted(found, key=lambda pin: datetime.fromisoformat(pin["created"]), reverse=True)


def _to_the_millisecond(created: str) -> str:
    shown = datetime.fromisoformat(created).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


@asynccontextmanager
async def running_pinning_service() -> AsyncIterator[PinningService]:
    """A service without pins, on loopback."""
    async with running(PinningService()) as service:
        yield service
