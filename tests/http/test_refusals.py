"""A client that is refused and asks again at once is refused at a pace, and nobody else waits for
that."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.errors import Overloaded
from content_gateway.http.asgi import Api
from content_gateway.http.messages import Answer, Handler, Request, Response, length_of
from content_gateway.http.openapi import Operation
from content_gateway.http.overload import Refusals
from tests.virtual import run_virtually

SECONDS = 20.0


async def waited(refusals: Refusals, requestor: str) -> float:
    """How long one refusal of *requestor* has waited."""
    begun = asyncio.get_running_loop().time()
    await refusals.wait(requestor)
    return asyncio.get_running_loop().time() - begun


def test_the_first_is_told_at_once() -> None:
    """And so is each that comes after a moment of rest, of whoever it is."""

    async def run() -> None:
        refusals = Refusals()
        for number in range(2_000):  # more than are remembered
            assert await waited(refusals, f"key {number}") == 0
        assert len(refusals._next) <= 1_000
        for _ in range(10):
            assert await waited(refusals, "one") == 0
            await asyncio.sleep(0.02)

    run_virtually(run())


@pytest.mark.parametrize(("clients", "most"), [(1, 101), (64, 101), (1_000, 800)])
def test_the_rest_comes_at_a_pace(clients: int, most: int) -> None:
    """However many ask again at once: a hundred a second, or each within two seconds."""
    refused = 0
    longest = 0.0

    async def insist(refusals: Refusals) -> None:
        nonlocal refused, longest
        while True:
            longest = max(longest, await waited(refusals, "hog"))
            refused += 1
            assert await waited(refusals, f"quiet {refused}") == 0

    async def run() -> None:
        refusals = Refusals()
        clamouring = [asyncio.create_task(insist(refusals)) for _ in range(clients)]
        await asyncio.sleep(SECONDS)
        for task in clamouring:
            task.cancel()
        await asyncio.gather(*clamouring, return_exceptions=True)

    run_virtually(run())
    assert 0.9 * min(clients, 1) <= refused / SECONDS <= most
    assert longest <= 2.01


def test_every_overload_that_is_answered_is_paced() -> None:
    """Whatever operation there is too much of; other errors are told at once."""
    statuses = Counter[int]()
    tired = "Tired."

    async def overloaded(_: Request) -> Answer:
        raise Overloaded(tired)

    async def well(_: Request) -> Answer:
        return Response(b"{}", [length_of(b"{}")])

    async def ask(api: Api, path: str) -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": [(b"x-api-key", b"hog")],
            "client": ("192.0.2.1", 1),
        }

        async def receive() -> dict[str, Any]:
            raise AssertionError("there is no body")

        async def send(message: Any) -> None:
            if "status" in message:
                statuses[message["status"]] += 1

        await api(scope, receive, send)

    async def run() -> tuple[float, float]:
        operations = [
            Operation("tired", "GET", "/tired", "resolve", "apiKey"),
            Operation("well", "GET", "/well", "resolve", "apiKey"),
        ]
        handlers = {"tired": Handler(overloaded, "resolve"), "well": Handler(well, "resolve")}
        api = Api(operations, handlers, OpenKeys())
        loop = asyncio.get_running_loop()
        for _ in range(50):
            await ask(api, "/well")
        at_once = loop.time()
        for _ in range(50):
            await ask(api, "/tired")
        return at_once, loop.time() - at_once

    at_once, paced = run_virtually(run())
    assert at_once == 0
    assert paced == pytest.approx(0.49)
    assert statuses == {200: 50, 503: 50}
