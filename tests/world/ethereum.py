"""A real Ethereum node (anvil) with a chain of its own, and a proxy that counts.

Sends transactions from any account, without gas money. What is on the chain is
the business of whoever deploys to it, such as `ens.py`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from .peers import Process, ask, free_port, require_peer


class RpcError(Exception):
    """The node refused a request; *data* is what the contract reverted with, if it did."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        data = error.get("data")
        self.data = bytes.fromhex(data[2:]) if isinstance(data, str) else b""


class Anvil:
    """A running node. Its first unlocked account is `account`."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.account = ""
        # Auto-impersonation: whoever owns a name can send, be it a contract or a stranger.
        options = ["--port", str(port), "--accounts", "2", "--silent", "--auto-impersonate"]
        self._process = Process(
            [require_peer("anvil"), *options, "--state", directory / "anvil.json"],
            log=directory / "anvil.log",
        )

    async def start(self) -> None:
        """Start, with the chain as the last `stop` left it."""
        await self._process.start(self._is_up)
        self.account = (await self.rpc("eth_accounts"))[0]

    async def stop(self) -> None:
        """Stop, keeping the chain on disk: until `start`, connections are refused."""
        await self._process.stop()

    async def _is_up(self) -> bool:
        try:
            return bool(await self.rpc("eth_chainId"))
        except aiohttp.ClientError:
            return False

    async def rpc(self, method: str, *params: Any) -> Any:
        """The result of one JSON-RPC request. Raises RpcError for an error."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        _, text = await ask("POST", self.url, json=request)
        answer = json.loads(text)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    async def call(self, to: str, data: bytes) -> bytes:
        """What the contract *to* answers to *data*. Raises RpcError when it reverts."""
        result: str = await self.rpc("eth_call", {"to": to, "data": "0x" + data.hex()}, "latest")
        return bytes.fromhex(result[2:])

    async def send(
        self, to: str | None, data: bytes, *, sender: str | None = None
    ) -> dict[str, Any]:
        """The receipt of a transaction with *data*; *to* None creates a contract.

        Raises RpcError when it reverts.
        """
        if sender is not None:
            await self.rpc("anvil_setBalance", sender, hex(10**20))
        transaction = {"from": sender or self.account, "data": "0x" + data.hex(), "to": to}
        sent = await self.rpc("eth_sendTransaction", transaction)
        # Anvil mines at once, but answers before it has.
        receipt: dict[str, Any] | None = None
        while receipt is None:
            receipt = await self.rpc("eth_getTransactionReceipt", sent)
        return receipt


@asynccontextmanager
async def running_anvil(directory: Path) -> AsyncIterator[Anvil]:
    """A node with an empty chain; its log and state go to *directory*."""
    anvil = Anvil(directory)
    await anvil.start()
    try:
        yield anvil
    finally:
        await anvil.stop()


class CountingProxy:
    """Stands before a node, passes everything on and remembers what was asked.

    While it is dark nothing is passed on, but what was asked is still remembered.
    """

    def __init__(self, target: str) -> None:
        self.requests: list[tuple[str, list[Any]]] = []
        self.delay = 0.0  # seconds before each answer
        self._target = target
        self._dark = False
        self._status: int | None = None
        app = web.Application()
        app.router.add_post("/", self._pass_on)
        self._server = TestServer(app)

    @property
    def url(self) -> str:
        """Where it listens, once entered."""
        return str(self._server.make_url("/"))

    @property
    def eth_calls(self) -> int:
        """How many `eth_call` were asked."""
        return sum(method == "eth_call" for method, _ in self.requests)

    def go_dark(self, status: int | None = None) -> None:
        """From now on drop every connection, or answer each request with *status*."""
        self._dark, self._status = True, status

    def come_back(self) -> None:
        """Pass requests on again."""
        self._dark = False

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        asked = json.loads(body)
        for one in asked if isinstance(asked, list) else [asked]:
            self.requests.append((one["method"], one.get("params", [])))
        await asyncio.sleep(self.delay)
        if self._dark and self._status is None and request.transport:
            request.transport.abort()
        if self._dark:
            return web.Response(status=self._status or 503)
        status, text = await ask(
            "POST", self._target, data=body, headers={"Content-Type": "application/json"}
        )
        text = self._said(json.loads(body), text)
        return web.Response(status=status, text=text, content_type="application/json")

    def _said(self, asked: Any, text: str) -> str:
        """What is passed back of the node's answer *text*."""
        return text


class LyingProxy(CountingProxy):
    """A node with a grudge: in the answers to `eth_call` it puts one address for another."""

    def __init__(self, target: str, *, truth: str, lie: str) -> None:
        super().__init__(target)
        self._truth, self._lie = truth[2:].lower(), lie[2:].lower()

    def _said(self, asked: Any, text: str) -> str:
        return text.replace(self._truth, self._lie)
