"""A miniature Ethereum node with blocks and logs, which it tells of over WebSocket and HTTP.

Answers names as tests/fakes/ethereum.py does. A test mines blocks, reorganises them, keeps them to
itself and says whatever it likes in their place."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.ethereum import Ethereum, keccak256
from tests.fakes.miniature import running

Topics = Sequence[bytes]


@dataclass(frozen=True)
class Mined:
    """A block: the topics of each of its logs."""

    number: int
    hash: bytes
    parent: bytes
    logs: tuple[Topics, ...]

    def header(self) -> dict[str, Any]:
        """As nodes tell of it."""
        return {
            "number": hex(self.number),
            "hash": "0x" + self.hash.hex(),
            "parentHash": "0x" + self.parent.hex(),
            "logsBloom": "0x" + "00" * 256,
        }

    def told(self, topics: Topics, *, removed: bool = False) -> dict[str, Any]:
        """One of its logs, as nodes tell of it."""
        return {
            "address": "0x" + "11" * 20,
            "blockNumber": hex(self.number),
            "blockHash": "0x" + self.hash.hex(),
            "topics": ["0x" + topic.hex() for topic in topics],
            "data": "0x",
            "removed": removed,
        }


class ChainNode(Ethereum):
    """The node. *methods* are those that were asked, in order, however they came."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []
        self.filters: list[dict[str, Any]] = []  # of eth_getLogs
        self.pushes_logs = True  # else that subscription is refused
        self.tells_of_removal = True
        self.is_silent = False  # nobody is told of new blocks
        self.is_unanswering = False  # questions for blocks and logs are passed over
        self.most_blocks: int | None = None  # that logs may be asked for at once
        self.logs_answer: Any = None  # what eth_getLogs says, in place of the truth
        self.head_answer: Any = None  # what eth_getBlockByNumber says
        self.forks = 0
        self.chain = [self._after(None, self.block, ())]
        self.sockets: dict[web.WebSocketResponse, dict[str, str]] = {}  # kind by subscription

    @property
    def ws_url(self) -> str:
        """Where it takes WebSockets."""
        return self.url.replace("http:", "ws:")

    async def mine(self, *logs: Topics) -> Mined:
        """A block with these *logs*, and everybody is told of it."""
        block = self._after(self.chain[-1], self.chain[-1].number + 1, logs)
        self.chain.append(block)
        self.block = block.number
        if not self.is_silent:
            await self._push(block)
        return block

    async def reorganise(self, depth: int, *blocks: Sequence[Topics]) -> None:
        """Put *blocks*, by their logs, in the place of the last *depth* ones."""
        self.forks += 1
        orphans = self.chain[-depth:]
        del self.chain[-depth:]
        if self.tells_of_removal and not self.is_silent:
            for orphan in reversed(orphans):
                for topics in orphan.logs:
                    await self.push("logs", orphan.told(topics, removed=True))
        for logs in blocks:
            await self.mine(*logs)

    async def push(self, kind: str, value: Any) -> None:
        """Tell *value* to all who have subscribed to *kind*."""
        for socket, subscriptions in list(self.sockets.items()):
            for number, subscribed in subscriptions.items():
                if subscribed == kind:
                    params = {"subscription": number, "result": value}
                    await self._send(
                        socket, {"jsonrpc": "2.0", "method": "eth_subscription", "params": params}
                    )

    async def say(self, message: str | bytes) -> None:
        """Send *message* as it is to everybody."""
        for socket in list(self.sockets):
            with suppress(ConnectionError):  # it may well hang up
                if isinstance(message, str):
                    await socket.send_str(message)
                else:
                    await socket.send_bytes(message)

    async def hang_up(self) -> None:
        """End every connection without a word."""
        for socket in list(self.sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._talk(request)
        asked = json.loads(await request.read())
        self.methods.append(asked["method"])
        if asked["method"] in ("eth_getBlockByNumber", "eth_getLogs"):
            return web.json_response(self._said(asked))
        return await super().answer(request)

    async def _talk(self, request: web.BaseRequest) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets[socket] = {}
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    asked = json.loads(message.data)
                    self.methods.append(asked["method"])
                    if not (self.is_unanswering and asked["method"].startswith("eth_get")):
                        await self._send(socket, self._said(asked, socket))
        finally:
            del self.sockets[socket]
        return socket

    def _said(
        self, asked: dict[str, Any], socket: web.WebSocketResponse | None = None
    ) -> dict[str, Any]:
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        method, params = asked["method"], asked["params"]
        if method == "eth_subscribe" and (params[0] != "logs" or self.pushes_logs):
            assert socket is not None
            said["result"] = f"0x{len(self.sockets[socket]) + 1:x}"
            self.sockets[socket][said["result"]] = params[0]
        elif method == "eth_getBlockByNumber":
            said["result"] = self._header(params[0])
        elif method == "eth_getLogs" and self._is_too_much(params[0]):
            said["error"] = {"code": -32600, "message": f"{self.most_blocks} blocks at most"}
        elif method == "eth_getLogs":
            self.filters.append(params[0])
            said["result"] = self._logs(params[0])
        else:
            said["error"] = {"code": -32601, "message": "the method does not exist"}
        return said

    def _header(self, which: str) -> Any:
        if self.head_answer is not None:
            return self.head_answer
        number = self.chain[-1].number if which == "latest" else int(which, 16)
        found = [block for block in self.chain if block.number == number]
        return found[0].header() if found else None

    def _logs(self, asked: dict[str, Any]) -> Any:
        if self.logs_answer is not None:
            return self.logs_answer
        wanted = set(asked["topics"][0])
        return [
            told
            for block in self.chain
            if self._is_in(block, asked)
            for topics in block.logs
            if set((told := block.told(topics))["topics"][:1]) & wanted
        ]

    def _is_too_much(self, asked: dict[str, Any]) -> bool:
        if self.most_blocks is None or "blockHash" in asked:
            return False
        return int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) >= self.most_blocks

    @staticmethod
    def _is_in(block: Mined, asked: dict[str, Any]) -> bool:
        if "blockHash" in asked:
            return bool(asked["blockHash"] == "0x" + block.hash.hex())
        return int(asked["fromBlock"], 16) <= block.number <= int(asked["toBlock"], 16)

    def _after(self, parent: Mined | None, number: int, logs: Sequence[Topics]) -> Mined:
        above = parent.hash if parent is not None else bytes(32)
        own = keccak256(above + number.to_bytes(8, "big") + bytes([self.forks]))
        return Mined(number, own, above, tuple(logs))

    async def _push(self, block: Mined) -> None:
        await self.push("newHeads", block.header())
        for topics in block.logs:
            await self.push("logs", block.told(topics))

    async def _send(self, socket: web.WebSocketResponse, value: Any) -> None:
        if not socket.closed:
            await socket.send_str(json.dumps(value))


@asynccontextmanager
async def running_chain() -> AsyncIterator[ChainNode]:
    """A node that listens on loopback, with one block."""
    node = ChainNode()
    async with running(node):
        try:
            yield node
        finally:
            await asyncio.gather(*(socket.close() for socket in list(node.sockets)))
