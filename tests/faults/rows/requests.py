"""Requests of every kind: the same pin many times, forged keys, and what the contract has not.

Each scene asks the running command over HTTP, and counts."""

import asyncio
import json
from collections import Counter
from typing import Any, Final

import yaml
from yarl import URL

from content_gateway.api_keys import mint
from content_gateway.settings.model import PACKAGED_SPEC
from tests.faults.asking import ask, ask_all, session
from tests.faults.ground import NOBODY, Ground
from tests.faults.row import Figure, Size
from tests.http.test_bad_requests import UNKNOWN_PATHS
from tests.ledgers import cid
from tests.process import Running

_CLIENTS: Final = 64
_CIDS: Final = {"full": 100, "short": 10}
_REPEATS: Final = 10
_FORGED: Final = {"full": 100_000, "short": 500}
_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND")


async def the_same_pins(ground: Ground, size: Size) -> Figure:
    """64 clients pin the same CIDs with one key, in their own order, at several processes."""
    number = _CIDS[size]
    async with ground.several(NOBODY) as urls:

        async def client(who: int) -> Counter[str]:
            own = [(who + each) % number for each in range(number)]
            paths = [f"{urls[who % len(urls)]}/ipfs/pin/add/{cid(each)}" for each in own]
            async with session() as asking:
                answers = await ask_all(asking, "POST", paths, at_once=1)
            assert {answer.status for answer in answers} == {200}
            return Counter(json.loads(answer.body)["message"] for answer in answers)

        told = sum(await asyncio.gather(*map(client, range(_CLIENTS))), Counter[str]())
    rows = len(ground.rows.pins())
    added = told["Pin added"]
    return Figure(
        f'{told.total():,} requests: {rows} rows, {added} times "added" for {number} CIDs',
        rows == added == number,
    )


async def lost_answers(ground: Ground, size: Size) -> Figure:
    """Each client hangs up before the answer, and asks again ten times."""
    number = _CIDS[size]
    async with ground.serving(NOBODY) as service, session() as asking:
        for each in range(number):
            await _ask_and_hang_up(service, f"/ipfs/pin/add/{cid(each)}")
            url = f"{service.url}/ipfs/pin/add/{cid(each)}"
            answers = await ask_all(asking, "POST", [url] * _REPEATS, at_once=_REPEATS)
            assert {answer.status for answer in answers} == {200}
    rows = len(ground.rows.pins())
    return Figure(
        f"{rows} rows for {number} CIDs, each asked for {_REPEATS + 1} times", rows == number
    )


async def _ask_and_hang_up(service: Running, path: str) -> None:
    port = URL(service.url).port
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-api-key: me\r\n\r\n".encode()
    )
    await writer.drain()
    writer.transport.abort()


async def forged_keys(ground: Ground, size: Size) -> Figure:
    """Well-formed keys that nobody issued, and one in ten with a letter changed."""
    number = _FORGED[size]
    statuses = Counter[int]()
    settings = {**NOBODY, "CONTENT_GATEWAY_KEYS__MODE": "issued"}
    async with ground.serving(settings) as service:
        url = f"{service.url}/ipfs/pin/add/{cid(1)}"
        left = iter(range(number))

        async def client() -> None:
            async with session(None) as asking:
                for each in left:
                    key = mint() if each % 10 else mint()[:-1] + "0"
                    asking.headers["x-api-key"] = key
                    statuses[(await ask(asking, "POST", url)).status] += 1

        await asyncio.gather(*(client() for _ in range(256)))
    accepted = number - statuses[401] - statuses[429] - statuses[503] - statuses[0]
    told = ", ".join(f"{count:,} times {status}" for status, count in sorted(statuses.items()))
    return Figure(
        f"{accepted} of {number:,} accepted ({told}); {len(ground.rows.pins())} rows",
        accepted == 0 and statuses[401] > number // 2 and not ground.rows.pins(),
    )


async def what_the_contract_has_not(ground: Ground, size: Size) -> Figure:
    """Every described path with every other method, other paths, and each operation without a
    key."""
    described = yaml.safe_load(PACKAGED_SPEC.read_text())
    tried, wrong, keyless = 0, [], set()
    async with ground.serving(NOBODY) as service, session() as with_key, session(None) as without:
        for template, item in described["paths"].items():
            path = _filled(template)
            for method in _METHODS:
                status = (await ask(with_key, method, service.url + path)).status
                tried += 1
                if method.lower() not in item and status not in (404, 405):
                    wrong.append(f"{method} {path}: {status}")
                if method.lower() not in item:
                    continue
                status = (await ask(without, method, service.url + path)).status
                needs_key = _needs_key(described, item[method.lower()])
                if status != 401 and not needs_key:
                    keyless.add(template)
                elif status not in (401, 404):  # of what is not served here
                    wrong.append(f"{method} {path} without a key: {status}")
        for path in UNKNOWN_PATHS:
            for method in _METHODS:
                status = (await ask(with_key, method, service.url + path)).status
                tried += 1
                if status not in (404, 405):
                    wrong.append(f"{method} {path}: {status}")
    return Figure(
        f"{tried} pairs, {len(wrong)} wrong{': ' + ', '.join(wrong[:3]) if wrong else ''}; without"
        f" a key: {', '.join(sorted(keyless))}",
        not wrong,
    )


def _filled(template: str) -> str:
    """A path of *template*, with something in each place."""
    values = {"domain": "a.eth", "cid": str(cid(1)), "name": "k51", "requestid": "x", "taskId": "x"}
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template.replace("{", "").replace("}", "")


def _needs_key(described: dict[str, Any], operation: dict[str, Any]) -> bool:
    return bool(operation.get("security", described.get("security")))
