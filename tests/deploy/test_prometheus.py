"""A real Prometheus with the files of deploy/ scrapes a real service, and draws the dashboard."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.command import run
from tests.deploy.files import DEPLOY
from tests.deploy.metrics import METRICS, OF_THE_LIBRARY
from tests.deploy.test_alerts import rules
from tests.deploy.test_dashboard import FILLED_IN, expressions
from tests.process import running
from tests.waiting import eventually
from tests.world.peers import Process, answers, ask, free_port, require_peer


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a Prometheus that has scraped a service which has answered a request."""
    program, admin, port = require_peer("prometheus"), free_port(), free_port()
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    config = tmp_path / "prometheus" / "prometheus.yaml"
    config.write_text(config.read_text().replace("_interval: 15s", "_interval: 1s"))
    targets = tmp_path / "prometheus" / "targets" / "content-gateway.yaml"
    targets.write_text(targets.read_text().replace(":8081", f":{admin}"))
    data = tmp_path / "data"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"
    process = Process([str(word) for word in command], log=tmp_path / "prometheus.log")
    async with AsyncExitStack() as stack:
        settings = {"CONTENT_GATEWAY_ADMIN__PORT": str(admin)}
        service = await stack.enter_async_context(running("serve", data, settings))
        key = (await asyncio.to_thread(run, data, "keys", "create", "--name", "k")).stdout.strip()
        for path in ("/key", "/domain/resolve/nobody.example"):
            await ask("GET", service.url + path, headers={"x-api-key": key})
        stack.push_async_callback(process.stop)
        await process.start(lambda: answers(200, "GET", f"{url}/-/ready"))

        async def is_scraped() -> bool:
            return bool(await query(url, "count_over_time(content_gateway_ready[1m]) > 2"))

        await eventually(is_scraped, seconds=60)
        yield url


async def query(url: str, expression: str) -> list[Any]:
    status, text = await ask("GET", f"{url}/api/v1/query?query={quote(expression)}")
    assert status == 200, text
    found: list[Any] = json.loads(text)["data"]["result"]
    return found


async def test_the_service_is_scraped_and_nothing_is_wrong(asked: str) -> None:
    """Up and ready; all rules are loaded, and evaluated without an error; no alert is pending."""
    (ready,) = await query(asked, "content_gateway_ready and on (instance) up == 1")
    assert ready["value"][1] == "1"
    _, text = await ask("GET", f"{asked}/api/v1/rules")
    loaded = [rule for group in json.loads(text)["data"]["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == {rule["alert"] for rule in rules()}
    assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}
    pending = {rule["name"] for rule in loaded if rule["state"] != "inactive"}
    assert pending == set()


async def test_it_tells_all_metrics_and_no_other(asked: str) -> None:
    """What there is to count, of the list that rules, dashboard and page are compared with."""
    _, text = await ask("GET", f"{asked}/api/v1/metadata")
    told = set(json.loads(text)["data"])
    known = METRICS | OF_THE_LIBRARY
    own = {name for name in told if re.match("content_gateway_|process_|python_gc_", name)}
    assert {name.removesuffix("_total") for name in own} == {
        name.removesuffix("_total") for name in known
    }


async def test_the_dashboard_is_drawn(asked: str) -> None:
    """Every expression is answered, and those of what is always there with something."""
    empty = []
    for expression in expressions():
        text = expression
        for variable, value in FILLED_IN.items():
            text = text.replace(variable, value)
        if not await query(asked, text):
            empty.append(text)
    always = ("ready", "build_info", "backend_up", "disk_free", "http_requests_total", "resident")
    assert not [text for text in empty if any(name in text for name in always)]
