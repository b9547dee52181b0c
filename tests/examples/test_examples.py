"""The examples, run as they stand: what they print, and what the service then holds."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from content_gateway.demo.origin import serving
from content_gateway.demo.publisher import site
from tests.examples.programs import LANGUAGES, made, run
from tests.process import Running, running
from tests.world.peers import ask

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

SITE = str(site()[0])
RETRY_AFTER = 1
BUSY = {
    "type": "/docs/errors#overloaded",
    "title": "Overloaded",
    "status": 503,
    "detail": "Too much is waiting here; try again soon.",
    "code": "overloaded",
    "requestId": "5f0c2a9e1-1",
    "message": "Too much is waiting here; try again soon.",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dev(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running("dev", tmp_path_factory.mktemp("dev") / "data") as dev:
        yield dev


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LANGUAGES)
async def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The command of one example, ready to run."""
    return await made(request.param, tmp_path_factory.mktemp(request.param))


def busy() -> web.Response:
    """What an overloaded service answers."""
    return web.json_response(
        BUSY,
        status=503,
        content_type="application/problem+json",
        headers={"Retry-After": str(RETRY_AFTER)},
    )


async def held(dev: Running, key: str) -> list[dict[str, Any]]:
    """The pins that the service has for *key*."""
    url = f"{dev.url}/ipfs/pin/ls"
    status, text = await ask("GET", url, headers={"x-api-key": key})
    assert status == 200
    results: list[dict[str, Any]] = json.loads(text)["results"]
    return results


class Front:
    """A proxy before the service that refuses the first request for each path.

    *asked* has the moments at which each path was asked for."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.asked: dict[str, list[float]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """What the service says, or a refusal."""
        moments = self.asked.setdefault(request.path, [])
        moments.append(time.monotonic())
        if len(moments) == 1:
            return busy()
        headers = {"x-api-key": request.headers["x-api-key"]}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(request.method, self._service + request.path_qs) as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, content_type=answer.content_type
            )


@asynccontextmanager
async def served(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """A server on a free loopback port that answers with *answer*; yields its URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with serving(application) as url:
        yield url


@pytest.mark.parametrize("domain", ["site.demo", "blog.demo"])
async def test_an_example_resolves_pins_waits_and_lists(
    dev: Running, program: list[str], domain: str
) -> None:
    """It says what it did, line by line, and the service holds the pin under the name's own."""
    key = f"{Path(program[-1]).name}-{domain}"
    told = {"GATEWAY": dev.url, "CONTENT_GATEWAY_KEY": key}
    said = await run([*program, domain], **told)
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines() == [
        f"{domain} is {SITE}",
        "Pin added",
        f"- {SITE} {domain}",
    ]
    [pin] = await held(dev, key)
    assert (pin["cid"], pin["status"], pin["name"]) == (SITE, "pinned", domain)

    again = await run([*program, domain], **told)
    assert again.status == 0, again.err
    assert again.out.splitlines()[1] == "A pin already exists for this CID and API key"
    assert len(await held(dev, key)) == 1


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ("nobody.demo", "Domain not found: "),
        ("no name/../at all", "Invalid domain: "),
        ("alias.demo", "alias.demo has no content"),
    ],
)
async def test_an_example_says_why_it_is_refused(
    dev: Running, program: list[str], domain: str, words: str
) -> None:
    """In the words of the problem document, with a link to more; and nothing is pinned."""
    key = f"{Path(program[-1]).name}-refused"
    said = await run([*program, domain], GATEWAY=dev.url, CONTENT_GATEWAY_KEY=key)
    assert said.status == 1, said.out
    assert said.out == ""
    assert words in said.err
    assert (f"({dev.url}/docs/errors" in said.err) == (domain != "alias.demo")
    assert "Traceback" not in said.err
    assert await held(dev, key) == []


@pytest.mark.deep
async def test_an_example_waits_as_long_as_it_is_told(dev: Running, program: list[str]) -> None:
    """Each request that is refused with Retry-After is sent again, and not sooner; the rest of the
    program sees no more of it."""
    front = Front(dev.url)
    async with served(front.answer) as url:
        key = f"{Path(program[-1]).name}-patient"
        said = await run([*program, "site.demo"], GATEWAY=url, CONTENT_GATEWAY_KEY=key)
    assert said.status == 0, said.err
    assert said.out.splitlines()[0] == f"site.demo is {SITE}"
    assert said.out.splitlines()[-1] == f"- {SITE} site.demo"
    paths = ["/domain/resolve/site.demo", f"/ipfs/pin/add/{SITE}", f"/ipfs/pin/status/{SITE}"]
    assert list(front.asked) == [*paths, "/ipfs/pin/ls"]
    for moments in front.asked.values():
        # curl counts whole milliseconds.
        assert moments[1] - moments[0] >= RETRY_AFTER - 0.05


@pytest.mark.deep
async def test_an_example_does_not_wait_for_ever(program: list[str]) -> None:
    """After five refusals it ends with the last one."""
    refusals = 0

    async def refuse(_: web.Request) -> web.Response:
        nonlocal refusals
        refusals += 1
        return busy()

    async with served(refuse) as url:
        said = await run([*program, "site.demo"], GATEWAY=url)
    assert (said.status, said.out) == (1, "")
    assert "Overloaded: Too much is waiting here" in said.err
    assert refusals == 5


async def test_an_example_survives_the_page_of_a_proxy(program: list[str]) -> None:
    """What is no problem document is told by its status."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<h1>no</h1>", status=418, content_type="text/html")

    async with served(page) as url:
        said = await run([*program, "site.demo"], GATEWAY=url)
    assert (said.status, said.out) == (1, "")
    assert "418" in said.err
    assert "Traceback" not in said.err
