"""The examples, run as they stand: what they print, and what the service then holds."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from content_gateway.demo.publisher import site
from tests.examples.programs import LANGUAGES, made, run
from tests.process import Running, running
from tests.world.peers import ask

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

SITE = str(site()[0])


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


async def held(dev: Running, key: str) -> list[dict[str, Any]]:
    """The pins that the service has for *key*."""
    url = f"{dev.url}/ipfs/pin/ls"
    status, text = await ask("GET", url, headers={"x-api-key": key})
    assert status == 200
    results: list[dict[str, Any]] = json.loads(text)["results"]
    return results


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
