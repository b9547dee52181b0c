"""A client that is refused and asks again at once is refused at a pace, and nobody else waits for
that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.errors import CallerError, Overloaded, TooManyAtOnce, UpstreamError
from content_gateway.http.asgi import Api
from content_gateway.http.error_reference import ADVICE
from content_gateway.http.kinds import KINDS
from content_gateway.http.messages import (
    Answer,
    Handler,
    Request,
    Response,
    ResponseStream,
    length_of,
)
from content_gateway.http.openapi import Operation
from content_gateway.http.operations import psa_errors
from content_gateway.http.overload import BURST, Refusals
from content_gateway.http.problems import kind_of
from content_gateway.http.traffic import Traffic
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


async def overloaded(_: Request) -> Answer:
    raise Overloaded("Tired.")


async def at_its_limit(_: Request) -> Answer:
    raise TooManyAtOnce


async def streamed(_: Request) -> Answer:
    """A large answer of which not even the first piece can be read now."""

    async def pieces() -> AsyncIterator[bytes]:
        raise Overloaded("Tired.")
        yield b""

    return ResponseStream(pieces(), [])


@pytest.mark.parametrize(
    ("tiring", "status"), [(overloaded, 503), (streamed, 503), (at_its_limit, 429)]
)
def test_every_overload_that_is_answered_is_paced(
    tiring: Callable[[Request], Awaitable[Answer]], status: int
) -> None:
    """Whatever operation there is too much of, and a key's own limit; other answers are sent at
    once. What is paced is no time that we took, and no alert on slow answers hears of it."""

    async def well(_: Request) -> Answer:
        return Response(b"{}", [length_of(b"{}")])

    async def run() -> tuple[float, float, float]:
        operations = [
            Operation("tired", "GET", "/tired", "resolve", "apiKey"),
            Operation("well", "GET", "/well", "resolve", "apiKey"),
        ]
        handlers = {"tired": Handler(tiring, "resolve"), "well": Handler(well, "resolve")}
        loop = asyncio.get_running_loop()
        traffic = Traffic(clock=loop.time)
        api = Api(operations, handlers, OpenKeys(), traffic=traffic)
        for _ in range(50):
            assert await status_of(api, "/well", key="hog") == 200
        for _ in range(BURST):
            assert await status_of(api, "/tired", key="hog") == status
        at_once = loop.time()
        for _ in range(50):
            assert await status_of(api, "/tired", key="hog") == status
        paced = loop.time() - at_once
        traffic.flush()
        return at_once, paced, traffic.route("/tired").seconds.sum

    at_once, paced, counted = run_virtually(run())
    assert at_once == 0
    assert paced == pytest.approx(0.49)
    assert counted == pytest.approx(0)


def test_a_limit_of_its_own_is_the_callers_matter() -> None:
    """It is 429 with a time to come back on both faces, and no overload that operators hear of."""
    assert issubclass(TooManyAtOnce, CallerError)
    kind, _ = kind_of(TooManyAtOnce())
    assert (kind.status, kind.code, dict(kind.headers)) == (
        429,
        "too-many-at-once",
        {b"retry-after": b"1"},
    )
    assert (b"retry-after", b"1") in psa_errors.headers_of(kind)


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
    assert all(kind.detail.endswith(".") for kind in KINDS)
    assert sorted(ADVICE) == described, "each has its advice, and none is for nothing"
    assert all(advice.endswith(".") for advice in ADVICE.values())
