"""A real Caddy and a real nginx with TLS in front of a real service."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.cli.command import run
from tests.deploy.proxies import COMMANDS, Proxy, logged_ids, running_proxy
from tests.fakes.origin import Origin
from tests.ipld import dags
from tests.process import Running, running
from tests.waiting import eventually
from tests.world.peers import free_port

FILE = dags.file(200, 20_000, width=10)  # 4 MB
ZONE = """
[names."site.example"]
address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
content = "ipfs://bafkqabtimvwgy3yk"
"""


@dataclass
class Behind:
    """A service, what stands in front of it, and a key that it has issued."""

    proxy: Proxy
    service: Running
    key: str

    async def ask(
        self,
        method: str,
        path: str,
        key: str | None = None,
        *,
        address: str = "127.0.0.1",
        **options: Any,
    ) -> tuple[int, bytes, Any]:
        """Status, body and header fields of one exchange through the proxy, from *address*."""
        headers = {**options.pop("headers", {}), **({"x-api-key": key} if key else {})}
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(local_addr=(address, 0))
            ) as session,
            session.request(
                method,
                URL(self.proxy.url + path, encoded=True),
                ssl=self.proxy.trust,
                headers=headers,
                **options,
            ) as answer,
        ):
            return answer.status, await answer.read(), answer.headers


@pytest.fixture(params=list(COMMANDS))
async def behind(
    request: pytest.FixtureRequest, tmp_path: Path, origin: Origin
) -> AsyncIterator[Behind]:
    origin.blocks |= FILE[1]
    (tmp_path / "zone.toml").write_text(ZONE)
    data = tmp_path / "data"
    settings = {
        "CONTENT_GATEWAY_NAMES__ZONE_FILE": str(tmp_path / "zone.toml"),
        "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": f'["{origin.url}"]',
        "CONTENT_GATEWAY_EMBEDDED__SERVE": "true",
        "CONTENT_GATEWAY_CORS__ORIGINS": '["https://app.example"]',
        "CONTENT_GATEWAY_ADMIN__PORT": str(free_port()),
        "CONTENT_GATEWAY_TRUSTED_PROXIES": '["127.0.0.1"]',
        "CONTENT_GATEWAY_DOH__OPEN": "true",
        "CONTENT_GATEWAY_DOH__REQUESTS_PER_MINUTE": "2",
    }
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running("serve", data, settings))
        created = await asyncio.to_thread(run, data, "keys", "create", "--name", "team")
        proxy = await stack.enter_async_context(
            running_proxy(request.param, tmp_path / request.param, service.url)
        )
        yield Behind(proxy, service, created.stdout.strip())


async def test_a_name_is_resolved_and_a_pin_kept(behind: Behind) -> None:
    """With a key 200, without one the service's own 401; and the description without any."""
    status, body, _ = await behind.ask("GET", "/domain/resolve/site.example", behind.key)
    assert (status, b"Domain resolved" in body) == (200, True)
    status, body, headers = await behind.ask("GET", "/domain/resolve/site.example")
    assert (status, headers["content-type"]) == (401, "application/problem+json")
    assert "www-authenticate" in headers
    status, body, _ = await behind.ask("POST", f"/ipfs/pin/add/{FILE[0]}", behind.key)
    assert (status, b"Pin added" in body) == (200, True)
    status, body, headers = await behind.ask("GET", "/spec")
    assert (status, body[:10]) == (200, b'{"openapi"')


async def test_a_car_comes_whole(behind: Behind) -> None:
    """A stream of four megabytes, as the store has it."""

    async def is_pinned() -> bool:
        _, body, _ = await behind.ask("GET", f"/ipfs/pin/status/{FILE[0]}", behind.key)
        return b'"status":"pinned"' in body

    await behind.ask("POST", f"/ipfs/pin/add/{FILE[0]}", behind.key)
    await eventually(is_pinned)
    status, body, headers = await behind.ask("GET", f"/ipfs/{FILE[0]}?format=car")
    assert (status, headers["content-type"].split(";")[0]) == (200, "application/vnd.ipld.car")
    assert all(block in body for block in FILE[1].values())


async def test_a_page_of_another_origin_may_ask(behind: Behind) -> None:
    """Its preflight is answered by the service, not by the proxy."""
    asking = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    asking["Access-Control-Request-Headers"] = "x-api-key"
    status, _, headers = await behind.ask("OPTIONS", "/key", headers=asking)
    assert status in (200, 204)
    assert headers["access-control-allow-origin"] in ("https://app.example", "*")


async def test_a_body_that_is_too_large_is_refused(behind: Behind) -> None:
    """64 KiB at most; what is just below is the service's to judge."""
    bearer = {"Authorization": f"Bearer {behind.key}"}
    pin = {"cid": "bafkqabtimvwgy3yk", "name": "x"}
    status, _, _ = await behind.ask("POST", "/psa/pins", headers=bearer, json=pin)
    assert status == 202
    pin["name"] = "x" * 60_000
    status, body, _ = await behind.ask("POST", "/psa/pins", headers=bearer, json=pin)
    assert status == 400, body
    pin["name"] = "x" * 70_000
    status, _, _ = await behind.ask("POST", "/psa/pins", headers=bearer, json=pin)
    assert status == 413


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/status"])
async def test_the_admin_listener_is_not_there(behind: Behind, path: str) -> None:
    """What is asked for is unknown to the service's own listener."""
    assert (await behind.ask("GET", path, behind.key))[0] == 404


# A path means the same however it is encoded (RFC 3986 section 6.2.2); the last one is a mistake.
SPELT = ["dns-query", "dns%2Dquery", "%64ns-query", "%64%6e%73-query", "DNS-query"]


async def test_a_key_is_in_no_log(behind: Behind) -> None:
    """Neither the proxy's nor the service's, and not when the service is away; and the id of each
    answer is in the proxy's."""
    _, _, one = await behind.ask("GET", "/key", behind.key)
    bearer = {"Authorization": f"Bearer {behind.key}"}
    _, _, other = await behind.ask("GET", "/key", headers=bearer)

    question = "?name=_dnslink.site.demo&type=TXT"
    paths = [f"/{spelt}/{behind.key}{question}" for spelt in SPELT]
    rest = [(await behind.ask("GET", path))[2] for path in paths]

    async def are_logged() -> bool:
        ids = {answer["x-request-id"] for answer in (one, other, *rest)}
        return ids <= logged_ids(behind.proxy)

    await eventually(are_logged)
    assert await behind.service.stop() == 0
    for path in (*paths, "/key"):
        assert (await behind.ask("GET", path, behind.key))[0] == 502
    for log in (behind.proxy.log, *behind.proxy.log.parents[1].glob("*.log")):
        assert behind.key not in log.read_text()


async def test_each_client_has_a_limit_of_its_own(behind: Behind) -> None:
    """Without a key, by the address that the proxy sees: what a client says of itself is no way
    around it."""

    async def status(address: str, claimed: str) -> int:
        fields = {"X-Forwarded-For": claimed}
        path = "/dns-query?name=_dnslink.site.demo&type=TXT"
        return (await behind.ask("GET", path, address=address, headers=fields))[0]

    said = [await status("127.0.0.2", f"192.0.2.{number}") for number in range(3)]
    assert (said, await status("127.0.0.3", "127.0.0.2")) == ([200, 200, 429], 200)


async def test_nothing_is_said_without_tls(behind: Behind) -> None:
    """A client that does not trust the certificate sends no request at all."""
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        async with (
            aiohttp.ClientSession() as session,
            session.get(behind.proxy.url, ssl=ssl.create_default_context()) as answer,
        ):
            raise AssertionError(answer.status)


async def test_a_connection_that_was_idle_serves_the_next_request(behind: Behind) -> None:
    """Requests in a row, and many at once, over connections that the proxy keeps."""
    first = await asyncio.gather(*(behind.ask("GET", "/key", behind.key) for _ in range(50)))
    rest = [await behind.ask("POST", "/ipfs/pin/add/bafkqabtimvwgy3yk", behind.key) for _ in "123"]
    assert [body for status, body, _ in (*first, *rest) if status != 200] == []


async def test_caddy_hides_a_restart(tmp_path: Path) -> None:
    """Requests that come while the service is away wait for it, and are answered."""
    data = tmp_path / "data"
    settings = {"CONTENT_GATEWAY_PORT": str(free_port())}
    async with AsyncExitStack() as stack:
        async with running("serve", data, settings) as service:
            proxy = await stack.enter_async_context(
                running_proxy("caddy", tmp_path / "caddy", service.url)
            )
            behind = Behind(proxy, service, "")
            assert (await behind.ask("GET", "/version"))[0] == 200
            assert await service.stop() == 0
        waiting = [asyncio.create_task(behind.ask("GET", "/version")) for _ in range(20)]
        async with running("serve", data, settings):
            assert {status for status, _, _ in await asyncio.gather(*waiting)} == {200}
