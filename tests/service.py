"""The real service in this process, on a loopback socket, with its answers checked.

Built by the same wiring/ as production, from settings; every answer a test gets has passed the
contract check."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from content_gateway.http.connections import most_connections
from content_gateway.http.limits import ClientLimits
from content_gateway.http.server import listen, make_server
from content_gateway.settings.sources import load
from content_gateway.wiring.app import Application, opened
from tests.contract import Answer, ContractCheck, contract

OFFLINE: dict[str, Any] = {
    "ens.rpc_urls": [],
    "basenames.rpc_urls": [],
    "gnosis.rpc_urls": [],
    "ipns.routers": [],
    "ipns.gateways": [],
    "ipns.dns_servers": ["127.0.0.1"],
    "embedded.gateways": [],
    "content.gateways": [],
    "log.level": "error",
}


@dataclass(frozen=True)
class Service:
    """A running service and a client of it."""

    url: str
    gateway: Application
    session: aiohttp.ClientSession
    contract: ContractCheck

    async def ask(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "me",
        headers: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
    ) -> Answer:
        """The checked answer to a request for *path*, sent as it is spelt; not compressed."""
        fields = [*headers, *([("x-api-key", key)] if key is not None else [])]
        url = URL(self.url + path, encoded=True)
        async with self.session.request(
            method, url, headers=fields, data=body, allow_redirects=False
        ) as response:
            lower = {name.lower(): value for name, value in response.headers.items()}
            read = await response.read()
            if lower.get("content-encoding") == "gzip":
                read = gzip.decompress(read)
            answer = Answer(response.status, lower, read)
        self.contract.check(method, path.partition("?")[0], answer)
        return answer

    async def psa(
        self,
        method: str,
        path: str = "/pins",
        *,
        key: str | None = "me",
        body: Any = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """The answer of the Pinning Service API; *body* is sent as JSON, bytes as they are."""
        fields = list(headers)
        if key is not None:
            fields.append(("Authorization", f"Bearer {key}"))
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            fields.append(("Content-Type", "application/json"))
        return await self.ask(method, f"/psa{path}", key=None, headers=fields, body=body)

    async def resolve(self, domain: str, **options: Any) -> Answer:
        """The answer to a resolve request."""
        return await self.ask("GET", f"/domain/resolve/{domain}", **options)

    async def pin(self, cid: str, **options: Any) -> Answer:
        """The answer to a Pin Add request."""
        return await self.ask("POST", f"/ipfs/pin/add/{cid}", **options)


@asynccontextmanager
async def running_service(data_dir: Path, **chosen: Any) -> AsyncIterator[Service]:
    """The service with open keys and no upstreams, but as *chosen* (`ens__rpc_urls=...`)."""
    values = OFFLINE | {"keys.mode": "open", "data_dir": data_dir, "port": 0}
    values |= {name.replace("__", "."): value for name, value in chosen.items()}
    loaded = load(environ={}, command_line=values)
    async with opened(loaded.settings) as gateway:
        gateway.start()
        listener = listen(loaded.settings.host, loaded.settings.port)
        # Without a drain: nobody connects while a test stops its service.
        is_local = loaded.settings.keys.mode == "open"
        bounds = ClientLimits(
            drain=0,
            is_local=is_local,
            sites=gateway.hosts.suffixes,
            connections=most_connections(0),
        )
        server = make_server(gateway.api, bounds)
        server.owns_signals = False
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as session:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield Service(url, gateway, session, contract())
        server.should_exit = True
        await serving
