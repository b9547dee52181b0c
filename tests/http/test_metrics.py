"""/metrics and /status: what operators see of a running service."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.cli.command import cids
from tests.deploy.metrics import METRICS, OF_THE_LIBRARY
from tests.process import Running, running
from tests.world.peers import free_port

KEY = "metrics-canary-key"


@asynccontextmanager
async def watched(folder: Path, **more: str) -> AsyncIterator[tuple[Running, str]]:
    """A service as a process, and the URL of its admin listener."""
    port = free_port()
    settings = {"CONTENT_GATEWAY_ADMIN__PORT": str(port), "CONTENT_GATEWAY_KEYS__MODE": "open"}
    async with running("serve", folder / "data", settings | more) as service:
        yield service, f"http://127.0.0.1:{port}"


async def ask(url: str, method: str = "GET", key: str | None = KEY) -> tuple[int, str]:
    headers = {} if key is None else {"x-api-key": key}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url) as answer,
    ):
        return answer.status, await answer.text()


def value(exposition: str, metric: str) -> float:
    """The value of the one line that begins with *metric*."""
    (found,) = re.findall(rf"^{re.escape(metric)} (\S+)$", exposition, re.MULTILINE)
    return float(found)


async def test_traffic_is_counted_by_route_and_status(tmp_path: Path) -> None:
    """By the path of the description, never by what was asked for."""
    async with watched(tmp_path) as (service, admin):
        for domain in ("a.demo", "b.demo", "not a name"):
            await ask(f"{service.url}/domain/resolve/{domain}")
        await ask(f"{service.url}/version", key=None)
        await ask(f"{service.url}/nowhere")
        _, text = await ask(f"{admin}/metrics")
        requests = "content_gateway_http_requests_total"
        resolve = 'method="GET",route="/domain/resolve/{domain}"'
        assert value(text, f'{requests}{{{resolve},status="503"}}') == 2
        assert value(text, f'{requests}{{{resolve},status="400"}}') == 1
        assert value(text, f'{requests}{{method="GET",route="/version",status="200"}}') == 1
        assert value(text, f'{requests}{{method="GET",route="unknown",status="404"}}') == 1
        seconds = 'content_gateway_http_request_duration_seconds_count{route="/version"}'
        assert value(text, seconds) == 1
        assert value(text, 'content_gateway_http_problems_total{code="invalid-domain"}') == 1
        assert value(text, "content_gateway_http_requests_in_flight") == 0
        assert "a.demo" not in text
        assert KEY not in text


async def test_pins_and_the_ledger_are_told(tmp_path: Path) -> None:
    """What waits, how many, in which groups they were written, and how much room is left."""
    async with watched(tmp_path) as (service, admin):
        for cid in cids(3):
            assert (await ask(f"{service.url}/ipfs/pin/add/{cid}", "POST"))[0] == 200
        _, text = await ask(f"{admin}/metrics")
        states = re.findall(r'content_gateway_contents\{state="\w+"\} (\S+)', text)
        assert sum(map(float, states)) == 3
        assert value(text, "content_gateway_ledger_group_size_count") >= 3
        assert value(text, "content_gateway_disk_free_bytes") > 0
        assert value(text, 'content_gateway_file_bytes{file="ledger"}') > 0
        assert value(text, "content_gateway_ready") == 1
        assert value(text, "content_gateway_backend_up") in (0, 1)
        assert value(text, "content_gateway_event_loop_lag_seconds_count") >= 0
        assert value(text, "process_open_fds") > 0


async def test_lookups_and_endpoints_are_told(tmp_path: Path) -> None:
    """A node that cannot be reached is counted, and its breaker shows."""
    node = f"http://127.0.0.1:{free_port()}/a-secret-path"
    rpc = {"CONTENT_GATEWAY_ENS__RPC_URLS": f'["{node}"]'}
    async with watched(tmp_path, **rpc) as (service, admin):
        for number in range(6):
            await ask(f"{service.url}/domain/resolve/{number}.eth")
        _, text = await ask(f"{admin}/metrics")
        assert (
            value(text, 'content_gateway_lookups_total{outcome="unavailable",service="ens"}') == 6
        )
        asked = 'content_gateway_upstream_requests_total{kind="chain",outcome="unavailable"}'
        assert value(text, asked) >= 3
        up = f'content_gateway_upstream_endpoint_up{{endpoint="{node.split("/")[2]}",kind="ens"}}'
        assert value(text, up) == 0
        assert "a-secret-path" not in text


async def test_the_status_page_tells_people(tmp_path: Path) -> None:
    """What waits and why, which endpoints are down, who asks; markup of others is text."""
    node = f"http://127.0.0.1:{free_port()}"
    more = {
        "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{node}"]',
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_MINUTE": "100",
    }
    async with watched(tmp_path, **more) as (service, admin):
        (cid,) = cids(1)
        await ask(f"{service.url}/ipfs/pin/add/{cid}", "POST")
        for number in range(6):
            await ask(f"{service.url}/domain/resolve/{number}.eth")
        status, page = await ask(f"{admin}/status")
        assert status == 200
        assert cid in page
        assert "6 of" not in page
        assert "7 of 100" in page
        assert node.removeprefix("http://") in page
        assert "down" in page
        assert KEY not in page
        assert "<script" not in page


@pytest.mark.parametrize("path", ["/metrics", "/status"])
async def test_a_ledger_that_is_gone_is_told_and_no_error(tmp_path: Path, path: str) -> None:
    """The page that is read in an outage is there in the outage."""
    async with watched(tmp_path) as (_, admin):
        (tmp_path / "data" / "ledger.sqlite").rename(tmp_path / "elsewhere")
        status, text = await ask(f"{admin}{path}")
        assert status == 200
        assert "content_gateway_build_info" in text or "Backlog" in text


async def test_each_metric_is_one_that_the_page_has(tmp_path: Path) -> None:
    """What /metrics says, and the list that rules, dashboard and docs/operating.md are held to."""
    async with watched(tmp_path) as (_, admin):
        _, text = await ask(f"{admin}/metrics")
    named = set(re.findall(r"^# TYPE (\S+) \w+$", text, re.MULTILINE))
    ours = {name for name in named if not name.endswith("_created")}
    assert {name for name in ours if name.startswith("content_gateway_")} == METRICS
    assert ours - METRICS <= OF_THE_LIBRARY
