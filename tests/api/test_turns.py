"""Requests begin in turn by requestor, so that nobody waits behind all that another has ready."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from content_gateway.api.call import Answer, Call, Handler, Reply, length_of
from content_gateway.api.contract import Operation
from content_gateway.api.routes import Api
from content_gateway.api.turns import Turns
from content_gateway.keys import OpenKeys

READY = 1_000
ASKED = 20


class House:
    """An Api with one cheap operation for keys and one for everybody; it counts who has had how
    many answers."""

    def __init__(self) -> None:
        operations = [
            Operation("keyed", "GET", "/keyed", "resolve", "apiKey"),
            Operation("open", "GET", "/open", None),
        ]
        handlers = {"keyed": Handler(self.handle, "resolve"), "open": Handler(self.handle, None)}
        self._api = Api(operations, handlers, OpenKeys())
        self.answered = Counter[str]()

    async def handle(self, call: Call) -> Answer:
        return Reply(b"{}", [length_of(b"{}")])

    async def ask(self, who: str, path: str = "/keyed") -> int:
        """The status of one answer to *who*: a key, or without one an address."""
        status = 0
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": [(b"x-api-key", who.encode())] if path == "/keyed" else [],
            "client": (who, 1),
        }

        async def receive() -> dict[str, Any]:
            raise AssertionError("there is no body")

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        await self._api(scope, receive, send)
        self.answered[who] += 1
        return status

    async def flood(self, who: str, path: str) -> None:
        """Ask again as soon as there is an answer, for ever; each in its own turn of the loop, as
        it comes over a connection."""
        while True:
            await self.ask(who, path)
            await asyncio.sleep(0)


async def _behind(house: House, hog: str, quiet: str, path: str) -> list[int]:
    """How many of the hog's requests were answered before each one of the quiet one's."""
    loads = [asyncio.create_task(house.flood(hog, path)) for _ in range(READY)]
    waited = []
    for _ in range(ASKED):
        before = house.answered[hog]
        await asyncio.create_task(house.ask(quiet, path))
        waited.append(house.answered[hog] - before)
    for load in loads:
        load.cancel()
    await asyncio.gather(*loads, return_exceptions=True)
    return waited


@pytest.mark.parametrize(
    ("hog", "quiet", "path"),
    [
        ("hog", "quiet", "/keyed"),
        ("192.0.2.1", "192.0.2.2", "/open"),
        ("192.0.2.1", "192.0.2.2", "/nowhere"),
        ("2001:db8::1", "2001:db8:1::1", "/open"),
    ],
)
async def test_nobody_waits_behind_all_that_is_ready(hog: str, quiet: str, path: str) -> None:
    """Beside a thousand requests that are always ready another's first waits for what has begun in
    one turn of the loop while nobody else was there, and the others for a handful."""
    first, *others = await _behind(House(), hog, quiet, path)
    assert first <= 100, first
    assert max(others) <= 16, others


async def test_who_is_alone_waits_for_nobody() -> None:
    """As many requests as a client usually has begin in the turn that they come in."""
    turns = Turns()
    await turns.take("one")
    assert [turns.begins("one") for _ in range(64)] == [True] * 64


async def test_who_is_alone_has_its_turn_too() -> None:
    """Of a thousand, not all begin in one turn; and all do, soon."""
    turns, begun = Turns(), 0

    async def begin() -> None:
        nonlocal begun
        if not turns.begins("one"):
            await turns.take("one")
        begun += 1

    tasks = [asyncio.create_task(begin()) for _ in range(READY)]
    await asyncio.sleep(0)
    assert begun <= 80
    await asyncio.gather(*tasks)
    assert begun == READY


async def test_who_leaves_takes_nothing_along() -> None:
    """A request that is given up while it waits leaves its permit to others."""
    turns = Turns()
    await turns.take("other")
    tasks = [asyncio.create_task(turns.take("one")) for _ in range(READY)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(one, asyncio.CancelledError) for one in done) <= READY // 2
    for _ in range(10):  # and nothing is lost
        await asyncio.gather(*(turns.take(who) for who in ("one", "two", "three")))
