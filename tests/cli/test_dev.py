"""`content-gateway dev` as a new user meets it: the printed lines work, without the internet."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.contract import Answer, ContractCheck
from tests.process import Running, running
from tests.waiting import eventually


@pytest.fixture
async def dev(tmp_path: Path) -> AsyncIterator[Running]:
    async with running("dev", tmp_path / "data") as dev:
        yield dev


def lines(dev: Running) -> list[list[str]]:
    """The curl commands that were printed, as words."""
    return [shlex.split(line) for line in re.findall(r"^ +curl .*$", dev.said, re.M)]


async def paste(command: list[str]) -> Answer:
    """The checked answer to a curl command."""
    method = command[command.index("-X") + 1] if "-X" in command else "GET"
    header = command[command.index("-H") + 1].split(": ") if "-H" in command else None
    url = URL(command[-1])
    headers = {header[0]: header[1]} if header else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url) as response,
    ):
        lower = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(response.status, lower, await response.read())
    ContractCheck().check(method, url.path, answer)
    return answer


async def test_a_first_start_has_nothing_to_tighten(dev: Running, tmp_path: Path) -> None:
    """The folder is its owner's from the first moment, and no line says otherwise."""
    assert "taken from" not in dev.said
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "demo").stat().st_mode & 0o777 == 0o700


async def test_every_printed_line_works(dev: Running) -> None:
    """Pasted in order, the six lines show every operation, blog.demo with ipnsCache at once."""
    answers = [await paste(command) for command in lines(dev)]
    assert [answer.status for answer in answers] == [200] * 6
    version, spec, site, blog, pin, coin = (answer.json for answer in answers)
    assert version == {"version": spec["info"]["version"]}
    assert coin["walletAddress"]["addr"] != site["walletAddress"]["addr"]
    alias = await paste(["curl", "-H", "x-api-key: me", f"{dev.url}/domain/resolve/alias.demo"])
    assert alias.json.keys() == {"message", "walletAddress"}
    assert site["content"]["type"] == "ipfs"
    assert blog["content"].keys() == {"type", "name", "ipnsCache"}
    assert blog["content"]["ipnsCache"] == site["content"]["cid"] == pin["result"]["cid"]

    status = ["curl", "-H", "x-api-key: me"]
    status.append(f"{dev.url}/ipfs/pin/status/{pin['result']['cid']}")

    async def is_kept() -> bool:
        result = (await paste(status)).json["result"]
        return bool(result["status"] == "pinned" and "timestamp" in result["peers"][0])

    await eventually(is_kept)


async def test_the_demonstration_keeps_its_names(tmp_path: Path) -> None:
    """A second start has the same IPNS name, with a record that is newer."""
    names = []
    for _ in range(2):
        async with running("dev", tmp_path / "data") as dev:
            blog = (await paste(lines(dev)[3])).json
            names.append(blog["content"]["name"])
            assert "ipnsCache" in blog["content"]
            assert await dev.stop() == 0
    assert names[0] == names[1]


async def test_serve_wants_issued_keys(tmp_path: Path) -> None:
    """In production a key that was not issued is refused, as dev's would be."""
    async with (
        running("serve", tmp_path / "data") as serve,
        aiohttp.ClientSession(headers={"x-api-key": "me"}) as session,
        session.get(f"{serve.url}/domain/resolve/site.demo") as response,
    ):
        assert response.status == 401


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """A second service on the same port ends with the setting that is wrong."""
    async with running("dev", tmp_path / "data") as dev:
        port = str(URL(dev.url).port)
        with pytest.raises(AssertionError, match=r"host, port: cannot listen"):
            async with running("dev", tmp_path / "other", {"CONTENT_GATEWAY_PORT": port}):
                pass
