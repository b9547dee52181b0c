"""A source of blocks that is told of them: `eth_subscribe` over a WebSocket.

Subscribes to new heads and to the logs of the events that matter; a node that has no subscription
to logs is asked for those of each block instead. Knows JSON-RPC over WebSocket; what a block means
is left to chain_listener.py."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from content_gateway.errors import InvalidUpstreamResponse, UpstreamTimeout
from content_gateway.ethereum.blocks import (
    BlockHeader,
    BlockLog,
    hex_hash,
    read_header,
    read_log,
    read_logs,
)
from content_gateway.ethereum.chain_listener import ChainListener
from content_gateway.ethereum.endpoint import NodeRefused
from content_gateway.net.http_client import host_of
from content_gateway.net.websocket import WebSocket, connected

T = TypeVar("T")

# The logs of 64 blocks; a head has 2 KB.
_MAX_BYTES: Final = 4 * 1024 * 1024
_MOST_EARLY: Final = 10_000  # messages that come before the answer to a question
# A node that says nothing for so long is asked for its newest block: it may have lost us.
_SILENCE: Final = 30.0


class Subscription:
    """One chain, through the node at *url*; each question has *seconds*. Logs are told of whose
    first topic is one of *topics*."""

    def __init__(
        self, url: str, *, topics: Sequence[bytes], seconds: float, silence: float = _SILENCE
    ) -> None:
        self.name = host_of(url)
        self._url = url
        self._filter = {"topics": [list(map(hex_hash, topics))]}
        self._seconds = seconds
        self._silence = silence

    async def follow(self, listener: ChainListener) -> None:
        """Bring each new block to *listener*, until the connection ends; raises UpstreamError."""
        async with connected(self._url, seconds=self._seconds, max_bytes=_MAX_BYTES) as socket:
            node = _Node(socket, self._filter, self._seconds)
            await node.subscribe()
            # Only now: a block between this one and the subscription would be missed.
            await listener.block(await node.header(None), node)
            listener.follows()
            while True:
                try:
                    told = await node.told(self._silence)
                except UpstreamTimeout:
                    # As with the first block: whoever was not told of it has no logs of it either.
                    await listener.block(await node.header(None), node)
                    continue
                if isinstance(told, BlockHeader):
                    await listener.block(told, node, pushes_logs=node.pushes_logs)
                else:
                    listener.pushed(told)
                await asyncio.sleep(0)  # what has come already is read without waiting


class _Node:
    """The node behind *socket*: questions, and what it tells meanwhile."""

    def __init__(self, socket: WebSocket, logs: dict[str, Any], seconds: float) -> None:
        self._socket = socket
        self._filter = logs
        self._seconds = seconds
        self._number = 0
        self._early: deque[dict[str, Any]] = deque()
        self._readers: dict[object, Callable[[object], BlockHeader | BlockLog]] = {}
        self.pushes_logs = False

    async def subscribe(self) -> None:
        """Subscribe to logs if the node lets us, and to new heads; raises UpstreamError."""
        try:
            self._readers[await self._ask("eth_subscribe", ["logs", self._filter], _read_id)] = (
                read_log
            )
            self.pushes_logs = True
        except NodeRefused:
            pass  # it is asked for those of each block
        self._readers[await self._ask("eth_subscribe", ["newHeads"], _read_id)] = read_header

    async def told(self, seconds: float) -> BlockHeader | BlockLog:
        """The next block or log; raises UpstreamTimeout after *seconds*, else UpstreamError."""
        message = (
            self._early.popleft() if self._early else await self._socket.receive(seconds=seconds)
        )
        params = message.get("params")
        if not isinstance(params, dict) or message.get("method") != "eth_subscription":
            raise InvalidUpstreamResponse("The node tells what nobody has asked for.")
        subscription = params.get("subscription")
        read = self._readers.get(subscription) if isinstance(subscription, str) else None
        if read is None:
            raise InvalidUpstreamResponse("The node tells of no subscription of ours.")
        return _understood(params.get("result"), read)

    async def header(self, number: int | None) -> BlockHeader:
        """The block with that number, None: the newest one; raises UpstreamError."""
        which = "latest" if number is None else hex(number)
        return await self._ask("eth_getBlockByNumber", [which, False], read_header)

    async def logs(self, block: bytes) -> list[BlockLog]:
        """The events in the block with this hash; raises UpstreamError."""
        return await self._ask(
            "eth_getLogs", [{"blockHash": hex_hash(block)} | self._filter], read_logs
        )

    async def logs_between(self, first: int, last: int) -> list[BlockLog]:
        """The events in these blocks, both included; raises UpstreamError."""
        where = {"fromBlock": hex(first), "toBlock": hex(last)}
        return await self._ask("eth_getLogs", [where | self._filter], read_logs)

    async def _ask(self, method: str, params: list[Any], read: Callable[[object], T]) -> T:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        now = asyncio.get_running_loop().time
        end = now() + self._seconds  # for all that comes: a node may tell of blocks, and not answer
        await self._socket.send(asked, seconds=self._seconds)
        while len(self._early) < _MOST_EARLY:
            message = await self._socket.receive(seconds=end - now())
            if "method" in message:
                self._early.append(message)
            elif message.get("id") != self._number:
                raise InvalidUpstreamResponse("The node answers what nobody has asked.")
            elif message.get("error") is not None:
                raise NodeRefused(str(message["error"])[:200])
            else:
                return _understood(message.get("result"), read)
        raise InvalidUpstreamResponse("The node tells too much, and does not answer.")


def _understood(value: object, read: Callable[[object], T]) -> T:
    try:
        return read(value)
    except ValueError as wrong:
        raise InvalidUpstreamResponse(f"The message cannot be read: {wrong}.") from wrong


def _read_id(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise ValueError("a subscription has a short text as its id")
    return value
