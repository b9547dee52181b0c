"""A client that is refused and asks again at once is refused at a pace, and nobody else waits for
that."""

import asyncio

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.errors import Overloaded, UpstreamError
from content_gateway.http.asgi import Api
from content_gateway.http.kinds import KINDS
from content_gateway.http.messages import Answer, Handler, Request, Response, length_of
from content_gateway.http.openapi import Operation
from content_gateway.http.operations import psa_errors
from content_gateway.http.overload import BURST, Refusals
from content_gateway.http.problems import kind_of
from tests.contract import contract
from tests.http.direct import status_of
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


@pytest.mark.parametrize(("clients", "most"), [(1, 107), (64, 107), (1_000, 800)])
def test_the_rest_comes_at_a_pace(clients: int, most: int) -> None:
    """However many ask again at once: behind the first ones a hundred a second, or each within two
    seconds."""
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
    tired = "Tired."

    async def overloaded(_: Request) -> Answer:
        raise Overloaded(tired)

    async def well(_: Request) -> Answer:
        return Response(b"{}", [length_of(b"{}")])

    async def run() -> tuple[float, float]:
        operations = [
            Operation("tired", "GET", "/tired", "resolve", "apiKey"),
            Operation("well", "GET", "/well", "resolve", "apiKey"),
        ]
        handlers = {"tired": Handler(overloaded, "resolve"), "well": Handler(well, "resolve")}
        api = Api(operations, handlers, OpenKeys())
        loop = asyncio.get_running_loop()
        for _ in range(50):
            assert await status_of(api, "/well", key="hog") == 200
        for _ in range(BURST):
            assert await status_of(api, "/tired", key="hog") == 503
        at_once = loop.time()
        for _ in range(50):
            assert await status_of(api, "/tired", key="hog") == 503
        return at_once, loop.time() - at_once

    at_once, paced = run_virtually(run())
    assert at_once == 0
    assert paced == pytest.approx(0.49)


def test_our_own_overload_is_nobody_elses_fault() -> None:
    """It is 503 with a time to come back, and a code of its own, on both faces."""
    assert not issubclass(Overloaded, UpstreamError)
    kind, detail = kind_of(Overloaded())
    assert (kind.status, kind.code, dict(kind.headers)) == (
        503,
        "overloaded",
        {b"retry-after": b"1"},
    )
    assert (b"retry-after", b"1") in psa_errors.headers_of(kind)
    assert b'"reason":"OVERLOADED"' in psa_errors.body_of(kind, detail)


def test_every_code_is_described() -> None:
    """spec.yaml lists the codes of the table, and no other, so that clients can match them all."""
    described = contract().tree["components"]["schemas"]["ProblemCode"]["enum"]
    assert described == sorted({kind.code for kind in KINDS})
    titles = {(kind.code, kind.title) for kind in KINDS}
    assert len(titles) == len(described), "one code has two titles"
    assert all(kind.advice.endswith(".") and kind.detail.endswith(".") for kind in KINDS)
