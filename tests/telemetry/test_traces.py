"""Traces of a real service, as a collector in miniature receives them."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from content_gateway.ledger.sqlite.ledger import SqliteLedger
from content_gateway.telemetry.open_telemetry import OpenTelemetry
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.process import running
from tests.service import running_service
from tests.world.peers import free_port

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEY = "canary-key-77aa"
DOMAIN = "canary-name.eth"


class Collector:
    """Takes spans over HTTP, as the OTLP specification has it, and keeps them."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Any] = []
        self.received = b""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.received += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return web.Response()

    def named(self, name: str) -> Any:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    kept = Collector()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/v1/traces", kept.take)
    async with serving(app) as kept.url:
        yield kept


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


def attributes(span: Any) -> Mapping[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def test_a_request_is_followed_to_the_servers_that_it_waits_for(
    tmp_path: Path, collector: Collector, ethereum: FakeEthereum
) -> None:
    """In the trace that it came with, and without a word of who asked for what."""
    ethereum.names[DOMAIN] = Name(address="0x" + "11" * 20)
    secret = f"{ethereum.url}/canary-path-0c1d"
    async with running_service(
        tmp_path, ens__rpc_urls=[secret], traces__url=collector.url, traces__sample=0
    ) as service:
        traced = [("traceparent", f"00-{TRACE}-{PARENT}-01")]
        answer = await service.resolve(DOMAIN, key=KEY, headers=traced)
        assert answer.status == 200
        await service.ask("GET", "/version", key=None)  # has no trace, and 0 are sampled
    request = collector.named("GET /domain/resolve/{domain}")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    told = attributes(request)
    assert told["http.route"] == "/domain/resolve/{domain}"
    assert told["http.response.status_code"] == 200
    assert told["content_gateway.request_id"] == answer.headers["x-request-id"]
    upstream = collector.named("chain")
    assert upstream.trace_id == request.trace_id
    assert upstream.parent_span_id == request.span_id
    assert attributes(upstream)["server.address"] == "127.0.0.1"
    assert len(collector.spans) == 2
    assert b"canary" not in collector.received


async def test_what_fails_is_told_to_have_failed(tmp_path: Path, collector: Collector) -> None:
    """Of a server that cannot be reached, and of the answer."""
    rpc = f"http://127.0.0.1:{free_port()}"
    async with running_service(
        tmp_path, ens__rpc_urls=[rpc], traces__url=collector.url, traces__sample=1
    ) as service:
        assert (await service.resolve("any.eth")).status == 503
    request, upstream = collector.named("GET /domain/resolve/{domain}"), collector.named("chain")
    assert request.status.code == upstream.status.code == 2  # STATUS_CODE_ERROR
    assert attributes(upstream)["error.type"] == "UpstreamUnavailable"
    assert attributes(request)["http.response.status_code"] == 503


async def test_a_collector_that_is_gone_harms_nobody(tmp_path: Path) -> None:
    """Requests are answered, and the service ends in time."""
    async with running_service(
        tmp_path, traces__url=f"http://127.0.0.1:{free_port()}", traces__sample=1
    ) as service:
        for _ in range(50):
            assert (await service.ask("GET", "/version", key=None)).status == 200


async def test_the_last_spans_are_sent_once_the_ledger_is_closed(tmp_path: Path) -> None:
    """A collector that takes its time delays nothing that must not be lost."""
    was_closed: list[bool] = []

    async def take(_: web.Request) -> web.Response:
        assert isinstance(service.gateway.ledger, SqliteLedger)
        was_closed.append(service.gateway.ledger.writes.is_over)
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    async with serving(app) as url:
        async with running_service(tmp_path, traces__url=url, traces__sample=1) as service:
            await service.ask("GET", "/version", key=None)
        assert was_closed[-1]


async def test_a_collector_that_never_answers_is_waited_for_once() -> None:
    """What it has not taken in 5 seconds is lost, however many batches are left."""
    asked, goes_on = 0, asyncio.Event()

    async def take(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await goes_on.wait()
        return web.Response()

    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/v1/traces", take)
    async with serving(app) as url:
        tracer = OpenTelemetry(url, 1)
        for _ in range(2048):  # four batches
            tracer.request([]).end(method="GET", route="/", status=200, request_id="one")
        await asyncio.to_thread(tracer.close)
        assert 1 <= asked < 4
        goes_on.set()


async def test_without_the_library_the_start_says_what_to_install(tmp_path: Path) -> None:
    """And a service without traces does not need it."""
    hidden = tmp_path / "hidden"
    (hidden / "opentelemetry").mkdir(parents=True)
    (hidden / "opentelemetry" / "__init__.py").write_text(
        'raise ModuleNotFoundError("gone", name="opentelemetry")'
    )
    settings = {
        "PYTHONPATH": str(hidden),
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_TRACES__URL": "http://127.0.0.1:9",
    }
    with pytest.raises(AssertionError, match=r"pip install content-gateway\[otel\]"):
        async with running("serve", tmp_path / "data", settings):
            raise NotImplementedError("it has started")
    async with (
        running("serve", tmp_path / "data", settings | {"CONTENT_GATEWAY_TRACES__URL": ""}) as on,
        aiohttp.ClientSession() as session,
        session.get(f"{on.url}/version") as answer,
    ):
        assert answer.status == 200
